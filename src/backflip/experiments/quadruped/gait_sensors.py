"""A quadruped walks by its senses, on bodies and grounds it never met (Degrave et al., Table 1 only).

A recurrent network reads the 81 sensors and corrects a trot that runs on a clock. Every robot in training
has masses and friction of its own; the robots it is judged by differ more than any of those.
"""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backflip.experiments.audit import BARS, Audit, audit, finer
from backflip.experiments.base import Claim, Progress, read_result
from backflip.experiments.quadruped import gait, trot
from backflip.experiments.quadruped.walk import disturbed, walk_of
from backflip.experiments.training import SEEDS, middle, seconds_per_update, simulations, train_seeds

NAME = "gait-sensors"
SUMMARY = "a quadruped walks by its 81 sensors, on frictions and masses it never met"

SECONDS, ROBOTS, UPDATES, RATE = 5.0, 16, 50, 0.015
"""few and short: the start falls on no ground, and most of what speed is gained comes within ten updates"""
UNITS, SHARE = 64, 0.2
"""of the network that reads the sensors, and how much of what it says is done [rad]"""
FADE, CLIP, FELL = 0.975, 1.0, 0.3
LEVEL, BOBBING, SPARING, ASTRAY = 1.0, 40.0, 0.1, 0.5
"""[m/s] for lying on its side; [1/(m s)] per square of the height's deviation; per power over weight;
[m/s] for facing aside"""
STURDY = trot.Trot(hip=0.48, knee=0.7, bend=-0.37, lead=2.5, lean=0.13)
"""what training starts from: slow, but it stumbles on no ground"""
MET, UNMET = ((0.6, 1.1), 0.15), ((0.5, 1.2), 0.2)
"""friction, and how far masses are off, in training and when judged"""
TESTED, LONG, SEED_UNSEEN = 64, 20.0, 1_000_003
"""robots; [s]"""
KINDS = "clock", "elman", "lstm"
"""who learns: the trot alone, which senses nothing, and two networks"""
HINGES, IMU, TURNED, MOVED = (1.0, 10.0, 30.0), (3.0, 20.0), 1.0, (1.0, 3.0)
"""what is much for a sensor: angle, rate, torque; spin, acceleration; a turn; velocity, spin"""
FORCE, PLACE = 100.0, 0.3
"""[N], [m] the same for a contact, and for a shank as the spine sees it"""
MUCH = np.repeat([*HINGES, *IMU, TURNED, *MOVED, FORCE, PLACE], [8, 8, 8, 3, 3, 9, 3, 3, 24, 12])


class Reflexes(NamedTuple):
    """A trot on a clock, corrected by a network that reads the sensors; `net` None: the trot alone."""

    trot: Any
    net: Any

    def ready(self, ahead, seconds: float, dt: float):
        """The policy for so long, its clock ahead by a part of a stride, and its first memory.

        It is asked every `trot.DT`, however short steps are, and its answer held in between.
        """
        times = round(trot.DT / dt)
        policy, memory = self._asked(ahead, round(seconds / trot.DT))
        return (policy, memory) if times == 1 else held(policy, memory, times)

    def _asked(self, ahead, steps: int):
        """The policy that is asked at every step, and its first memory."""
        import jax.numpy as jnp

        import backflip as bf

        angles = trot.controls(self.trot, steps, ahead=ahead)
        if self.net is None:
            return lambda seen, t: (angles[t], t + 1), 0
        clock = bf.clock(steps, trot.DT, trot.FREQUENCY, ahead)

        def policy(seen, memory):
            t, recalled = memory
            correction, recalled = self.net(jnp.concatenate([jnp.tanh(seen / MUCH), clock[t]]), recalled)
            return angles[t] + SHARE * correction, (t + 1, recalled)

        return policy, (0, self.net.blank())


def held(policy, memory, times: int):
    """The policy asked every `times` steps, its answer held in between; and its first memory."""
    import jax
    import jax.numpy as jnp

    def answer(seen, memory):
        count, *last = memory
        now = count % times == 0
        u, own = jax.tree.map(lambda new, old: jnp.where(now, new, old), policy(seen, last[1]), tuple(last))
        return u, (count + 1, u, own)

    return answer, (0, jnp.zeros(8), memory)


def policy_of(kind: str, seed: int) -> Reflexes:
    """A policy that trots and corrects nothing yet."""
    import jax

    import backflip as bf

    make = {"clock": None, "elman": bf.Elman, "lstm": bf.LSTM}[kind]
    inputs = len(MUCH) + 2
    net = None if make is None else make(inputs, 8, UNITS, key=jax.random.key(seed))
    return Reflexes(trot.network(seed, STURDY), net)


def open_loop(results: Path, seed: int) -> Reflexes:
    """The stored gait of `gait-lifelike`, which was trained on one robot and senses nothing."""
    import backflip as bf

    file = results / "gait-lifelike" / f"weights-{seed}.npz"
    if not file.exists():
        raise FileNotFoundError(f"{file}: is compared with; `backflip run gait-lifelike` makes it")
    return Reflexes(bf.load_weights(file, trot.network(seed)), None)


def vary(model, key, among):
    """The robot on a ground of its own, with bodies heavier or lighter each by its own factor."""
    import jax
    import jax.numpy as jnp

    (low, high), spread = among
    ground, bodies = jax.random.split(key)
    friction = jax.random.uniform(ground, minval=low, maxval=high)
    factor = 1 + spread * jax.random.uniform(bodies, (len(model.topology.bodies),), minval=-1.0)
    body = np.array([shape.body for shape in model.topology.shapes])
    density = model.density * jnp.where(body >= 0, factor[body], 1.0)
    return dataclasses.replace(model, friction=jnp.full_like(model.friction, friction), density=density)


def meet(setup: gait.Problem, key, among) -> tuple[Any, Any, Any]:
    """A robot, a disturbed start with no foot in the ground, and a moment of the stride [strides]."""
    import jax
    import jax.numpy as jnp

    import backflip as bf

    one, two, three = jax.random.split(key, 3)
    model, start = vary(setup.model, one, among), disturbed(setup.start, two)
    lift = jnp.array([0.0, 0.0, 1.0]) * bf.penetration(model, start)
    return model, dataclasses.replace(start, p_WB=start.p_WB + lift), jax.random.uniform(three)


def cost(setup: gait.Problem, policy: Reflexes, key):
    """Backward speed, tilt, bobbing, work, and facing aside, of a robot drawn from the key."""
    import backflip as bf

    policy = bf.gradients.clip_per_robot(policy, 1 / ROBOTS, key)
    model, start, phase = meet(setup, key, MET)
    steps = round(SECONDS / setup.scheme.dt)
    play, memory = policy.ready(phase, SECONDS, setup.scheme.dt)
    pieces = bf.gradients.fade(FADE), bf.gradients.clip(CLIP)
    path = bf.rollout(setup.scheme, model, start, play, steps=steps, memory=memory, hooks=pieces)
    motion = walk_of(model, start, path)
    speed, facing = path.state.v_WB[:, 0, 0].mean(), path.state.R_WB[:, 0, 0, 0]
    total = -speed + LEVEL * (1 - motion.upright).mean() + BOBBING * motion.height.var()
    total += SPARING * motion.power.mean() / motion.weight + ASTRAY * (1 - facing).mean()
    return total, {"speed": speed, "upright": motion.upright.min()}


def learn(setup: gait.Problem, kind: str, seed: int, updates: int = UPDATES, **how: Any):
    """As `gait` learns, sixteen different robots at a time, each with one vote."""
    import jax

    import backflip as bf

    return bf.train(
        lambda policy, key: cost(setup, policy, key),
        policy_of(kind, seed),
        optimizer=gait.steady_descent(RATE, UPDATES, FELL),
        updates=updates,
        robots=ROBOTS,
        key=jax.random.key(seed),
        **how,
    )


def walk(setup: gait.Problem, policy: Reflexes, key, fine: bool = False):
    """A robot that no training met, its start, and its walk; the policy is asked every 0.01 s in any case."""
    import backflip as bf

    model, start, phase = meet(setup, key, UNMET)
    scheme = finer(setup.scheme) if fine else setup.scheme
    play, memory = policy.ready(phase, LONG, scheme.dt)
    path = bf.rollout(scheme, model, start, play, steps=round(LONG / scheme.dt), memory=memory)
    return model, start, path


class Measured(NamedTuple):
    """A policy on 64 robots, 20 s each."""

    speeds: list[float]
    """[m/s] of each, along the way it faces"""
    fell: list[bool]
    friction: list[float]

    @property
    def falls(self) -> int:
        return sum(self.fell)

    def text(self) -> str:
        """In words."""
        return f"{self.falls} falls, {np.median(self.speeds):.2f} m/s, slowest {min(self.speeds):.2f}"


def measure(setup: gait.Problem, policies: list[Reflexes], fine: bool = False) -> list[Measured]:
    """Let robots walk that no training met, by policies of one kind."""
    import equinox as eqx
    import jax

    def one(policy, key):
        model, start, path = walk(setup, policy, key, fine)
        motion = walk_of(model, start, path)
        return motion.speed, motion.fell, model.friction[0]

    keys = jax.random.split(jax.random.key(SEED_UNSEEN), TESTED)
    every = eqx.filter_jit(jax.vmap(one, in_axes=(None, 0)))
    return [Measured(*(np.asarray(x).tolist() for x in every(policy, keys))) for policy in policies]


def audits_of(setup: gait.Problem, policies: list[Reflexes]) -> list[Audit]:
    """The worst of four walks of each policy."""
    import equinox as eqx
    import jax

    roll = eqx.filter_jit(lambda policy, key: walk(setup, policy, key))
    keys = jax.random.split(jax.random.key(SEED_UNSEEN), 4)
    return [Audit(*np.max([audit(*roll(policy, key)) for key in keys], axis=0)) for policy in policies]


def run(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
    """Five seeds of each kind, judged with both time steps, beside the trot before it learned."""
    import backflip as bf

    setup = gait.problem(dt=gait.OWN_DT)
    compared = [open_loop(out.parent, s) for s in range(SEEDS)]
    logs, policies, walks = {}, {}, {"gait-lifelike": measure(setup, compared)}
    result: dict[str, Any] = {
        "gait_lifelike": _summary(walks["gait-lifelike"]),
        "trot": _summary(measure(setup, [policy_of("clock", seed)])),
    }
    for kind in KINDS:
        trained = train_seeds(
            out, seed, progress, resume, lambda s, kind=kind, **how: learn(setup, kind, s, **how), name=kind
        )
        logs[kind] = [log for _, log in trained]
        policies[kind] = [log.best for log in logs[kind]]  # not the last ones, see `gait_lifelike`
        walks[kind] = measure(setup, policies[kind])
        for s, policy in enumerate(policies[kind], seed):
            bf.save_weights(out / f"{kind}-{s}.npz", policy)
        result[kind] = _summary(walks[kind]) | {
            "at_quarter_step": _summary(measure(setup, policies[kind], fine=True)),
            "audits": [a._asdict() for a in audits_of(setup, policies[kind])],
            "seconds_per_update": seconds_per_update(logs[kind]),
        }
    shown = middle([np.median(m.speeds) for m in walks["elman"]])
    _draw(out, setup, policies["elman"][shown], walks, logs)
    falls = [m.falls for m in walks["elman"]]
    files = ["convergence.png", "robots.png", "replay.html"]
    evaluations = simulations(logs["elman"][0], UPDATES)
    return {"evaluations": evaluations, "error": float(np.median(falls)), **result, "files": files}


def _summary(some: list[Measured]) -> dict[str, Any]:
    return {
        "falls": [m.falls for m in some],
        "speeds": [float(np.median(m.speeds)) for m in some],
        "slowest": [min(m.speeds) for m in some],
    }


def _draw(out: Path, setup: gait.Problem, policy: Reflexes, walks, logs) -> None:
    import equinox as eqx
    import jax

    import backflip as bf
    from backflip.view.colour import PALETTE
    from backflip.view.plots import figure

    title, x = "Learning on robots that all differ", "updates of 16 robots"
    with figure(out / "convergence.png", title=title, x=x, y="mean speed over 5 s [m/s]") as axes:
        for k, kind in enumerate(KINDS):
            speeds = np.median([log.column("speed") for log in logs[kind]], axis=0)
            axes.plot(speeds, color=PALETTE[k], label=f"{kind}, median of the seeds")
    title, x = "Robots that no training met", "friction of the ground"
    with figure(out / "robots.png", title=title, x=x, y="mean speed over 20 s [m/s]") as axes:
        for k, kind in enumerate((*KINDS, "gait-lifelike")):
            for j, m in enumerate(walks[kind]):
                label = kind if j == 0 else None
                axes.scatter(m.friction, m.speeds, s=6, alpha=0.5, color=PALETTE[k], label=label)
        axes.set(ylim=(-0.6, 1.3))
        for edge in MET[0]:
            axes.axvline(edge, linestyle=":", linewidth=1)
    model, _, path = eqx.filter_jit(lambda p: walk(setup, p, jax.random.key(SEED_UNSEEN)))(policy)
    bf.save_replay(out / "replay.html", model, path, title="A robot that feels its way")


def verify(out: Path) -> list[Claim]:
    """Walk again with the stored policies."""
    import backflip as bf

    record = read_result(out.parent / f"{NAME}.json")
    setup, seeds = gait.problem(dt=gait.OWN_DT), range(record["seed"], record["seed"] + SEEDS)
    compared = measure(setup, [open_loop(out.parent, s) for s in range(SEEDS)])
    median = compared[middle([m.falls for m in compared])]
    text = f"the open-loop gait of gait-lifelike on {TESTED} robots never met, median of the seeds"
    claims = [Claim(NAME, text, "reported", median.text(), True)]
    for kind in KINDS:
        policies = [bf.load_weights(out / f"{kind}-{s}.npz", policy_of(kind, s)) for s in seeds]
        for fine, how in ((False, ""), (True, ", steps a quarter as long")):
            some = measure(setup, policies, fine)
            median = some[middle([m.falls for m in some])]
            bar = "reported" if kind == "clock" else "0 falls"
            text = f"{kind} on {TESTED} robots never met, median of the seeds{how}"
            claims.append(Claim(NAME, text, bar, median.text(), kind == "clock" or not median.falls))
        audits = audits_of(setup, policies)
        worst, physical = Audit(*np.max(audits, axis=0)), sum(a.ok for a in audits)
        text = f"{kind}: four walks of each seed are physics"
        claims.append(
            Claim(
                NAME, text, f"all: {BARS}", f"{physical} of {SEEDS}; worst {worst.text()}", physical == SEEDS
            )
        )
    return claims
