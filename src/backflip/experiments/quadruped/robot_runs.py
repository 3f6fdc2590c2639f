"""Five seconds in the life of a quadruped whose constants are unknown: what it does and what it senses.

Twenty runs of a quarter of a second: twelve times it is dropped and kicks in the air, six times it stands and
sways, twice it slides on its belly. In the air no sensor tells the mass of a lower link from its length: what
a leg does to the torso depends on their product, and the rest hides in the torso's inertia. Feet on the
ground show lengths; but contacts chatter, and in runs of a second the slope of a reading is that of the
chatter.
"""

from functools import cache
from typing import Any

import numpy as np

SAMPLE, SAMPLES = 2e-3, 125
"""[s] between samples; samples of every run"""
OWN = 5
"""steps that the robot itself takes between samples"""
SWEEPS = 20
FALLS, STANDS, SLIDES = 12, 6, 2
"""runs of each kind, in this order"""
HOLD, SWING = 42, 1.3
"""in the air a target lasts so many samples, and lies within ± so much [rad]"""
HEIGHT = 1.0
"""[m] of the torso when it is dropped: it is still in the air at the end"""
STAND = (0.4, -0.8)
"""[rad] shoulders and elbows of a robot that stands, its feet below its hips"""
SWAY, SWAYS = (0.012, 0.025), 4.0
"""[rad] how far they sway at most, and [Hz] how often: so gently that no foot slips or lifts"""
RAISED, SLIDE = 1.7, 2.5
"""[rad] shoulders of a robot that slides, its feet clear of the ground; [m/s] forwards"""
SERVO = {"gain": 20.0, "max_velocity": 10.0, "max_torque": 12.0, "damping": 0.1}
FRICTION = 0.7
NOISE = {"angle": 1.2e-3, "gyro": 4e-3, "accelerometer": 0.025}
"""[rad], [rad/s], [m/s²] standard deviations: a magnetic encoder such as ams AS5046, 0.06° and 12 bits; an
IMU such as Bosch BMI055, 0.014 °/s and 150 µg per √Hz, up to half of 500 Hz"""
CHANNELS = np.r_[0:8, 16:22]
"""of the quadruped's sensors: angles and IMU. Encoders give no rates"""
AVERAGED = (11, 12, 13)
"""the accelerometer's channels, which are means since the last sample"""


@cache
def robot() -> Any:
    """The lean quadruped as it is."""
    from backflip.robots import quadruped

    return quadruped(height=HEIGHT, friction=FRICTION, **SERVO)


def scheme(steps: int) -> Any:
    """So many steps between samples."""
    import backflip as bf

    return bf.Scheme(dt=SAMPLE / steps, solver=bf.PGS(sweeps=SWEEPS))


def noise() -> np.ndarray:
    """(14,) of every channel."""
    return np.repeat([NOISE["angle"], NOISE["gyro"], NOISE["accelerometer"]], [8, 3, 3])


def truth() -> dict[str, Any]:
    """The constants as they are; inertias of links are about x and y, and about z, along the link."""
    from backflip.robots.quadruped import LINK, LINK_INERTIA, LINK_MASS, TORSO_INERTIA, TORSO_MASS

    return {
        "torso mass": TORSO_MASS,
        "upper mass": LINK_MASS,
        "lower mass": LINK_MASS,
        "torso inertia": np.array(TORSO_INERTIA),
        "upper inertia": LINK_INERTIA[1],
        "lower inertia": LINK_INERTIA[1],
        "upper long inertia": LINK_INERTIA[2],
        "lower long inertia": LINK_INERTIA[2],
        "upper length": LINK,
        "lower length": LINK,
        "friction": FRICTION,
        **{name.replace("_", " "): value for name, value in SERVO.items()},
    }


def model_of(theta: dict[str, Any]) -> Any:
    """The quadruped with these constants."""
    import jax.numpy as jnp

    import backflip as bf

    model = robot()
    half = {link: theta[f"{link} length"] / 2 for link in ("upper", "lower")}
    mass, inertia = {"torso": theta["torso mass"]}, {"torso": jnp.diag(theta["torso inertia"])}
    for link in half:
        about, along = theta[f"{link} inertia"], theta[f"{link} long inertia"]
        mass |= _every_leg(link, theta[f"{link} mass"])
        inertia |= _every_leg(link, jnp.diag(jnp.stack([about, about, along])))
    return bf.replace(
        model,
        mass=mass,
        inertia=inertia,
        p_AJ=_every_leg("elbow", (0.0, 0.0, -half["upper"])),
        p_BJ=_every_leg("shoulder", (0.0, 0.0, half["upper"]))
        | _every_leg("elbow", (0.0, 0.0, half["lower"])),
        p_BS=_every_leg("foot", (0.0, 0.0, -half["lower"])),
        friction={"ground": theta["friction"]},
        gain=jnp.ones_like(model.gain) * theta["gain"],
        max_velocity=jnp.ones_like(model.gain) * theta["max velocity"],
        max_torque=jnp.ones_like(model.gain) * theta["max torque"],
        damping=jnp.ones_like(model.damping) * theta["damping"],
    )


def _every_leg(part: str, value: Any) -> dict[str, Any]:
    from backflip.robots.quadruped import LEGS

    return {f"{leg} {part}": value for leg in LEGS}


def starts(model: Any) -> Any:
    """The states in which the runs begin, with a leading axis: what is known of them is how it is let go.

    It falls from rest, stands at rest, or slides at a known speed; feet or belly are on the ground.
    """
    import jax
    import jax.numpy as jnp

    import backflip as bf
    from backflip.robots.quadruped import BUMPER, FOOT

    def posed(shoulder: float, elbow: float) -> Any:
        return bf.rest(model, _every_leg("shoulder", shoulder) | _every_leg("elbow", elbow))

    falling, standing, lying = bf.rest(model), posed(*STAND), posed(RAISED, 0.0)
    foot = bf.point(model, standing, "fl lower", bf.get(model, "p_BS", "fl foot")).position
    standing = _moved(standing, foot[2] - FOOT)
    lying = _moved(lying, HEIGHT - BUMPER, velocity=(SLIDE, 0.0, 0.0))
    kinds = [falling] * FALLS + [standing] * STANDS + [lying] * SLIDES
    return jax.tree.map(lambda *x: jnp.stack(x), *kinds)


def _moved(state: Any, down: Any, velocity: tuple[float, ...] = (0.0, 0.0, 0.0)) -> Any:
    """The state lower by `down` [m], every body faster by `velocity` [m/s]."""
    import equinox as eqx
    import jax.numpy as jnp

    below = jnp.zeros(3, state.p_WB.dtype).at[2].set(down)
    faster = state.v_WB + jnp.asarray(velocity, state.v_WB.dtype)
    return eqx.tree_at(lambda s: (s.p_WB, s.v_WB), state, (state.p_WB - below, faster))


def targets(seed: int) -> np.ndarray:
    """(runs, samples, 8) [rad] what the servos are asked for: new poses at random, swaying, or none."""
    rng = np.random.default_rng(seed)
    poses = rng.uniform(-SWING, SWING, (FALLS, -(-SAMPLES // HOLD), 8))
    kicks = np.repeat(poses, HOLD, 1)[:, :SAMPLES]
    wave = 1 - np.cos(2 * np.pi * SWAYS * SAMPLE * np.arange(SAMPLES))
    sways = np.array(STAND) + rng.uniform(-1, 1, (STANDS, 1, 2)) * SWAY * wave[:, None]
    still = np.tile([RAISED, 0.0], (SLIDES, SAMPLES, 1))
    return np.concatenate([kicks, np.tile(np.concatenate([sways, still]), 4)])


def sense(model: Any, state: Any) -> Any:
    """(14,) encoders and IMU."""
    import backflip as bf

    return bf.observe(model, state)[CHANNELS]


def readings(seed: int) -> np.ndarray:
    """(runs, samples, 14) what the robot senses, with noise."""
    import jax
    import jax.numpy as jnp

    import backflip as bf

    model = robot()

    @jax.jit
    @jax.vmap
    def sensed(start, u):
        states = bf.rollout(scheme(OWN), model, start, jnp.repeat(u, OWN, 0)).state
        read = jax.vmap(sense, (None, 0))(model, states).reshape(SAMPLES, OWN, -1)
        return read[:, -1].at[:, AVERAGED].set(read[..., AVERAGED].mean(1))

    exact = np.asarray(sensed(starts(model), jnp.asarray(targets(seed), jnp.result_type(float))), float)
    return exact + np.random.default_rng([seed, 1]).normal(0, noise(), exact.shape)


def recording(seed: int, steps: int) -> Any:
    """The readings beside what was asked, for a search that takes so many steps between samples.

    The accelerometer of a robot that stands is left out: it hears its feet chatter.
    """
    import jax.numpy as jnp

    import backflip as bf

    sensed, asked = readings(seed), np.repeat(targets(seed), steps, 1)
    sensed[FALLS : FALLS + STANDS, :, AVERAGED] = np.nan
    dtype = jnp.result_type(float)
    return bf.Recording(jnp.asarray(sensed, dtype), jnp.asarray(asked, dtype), every=steps, averaged=AVERAGED)
