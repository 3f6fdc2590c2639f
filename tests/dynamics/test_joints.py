"""Every kind of joint in every role: what it holds stays held, what it leaves is free, momentum is kept.

All kinds ride in one model, strangers to each other, so that one compile serves them all.
"""

from functools import cache

import jax
import numpy as np
import pytest

import backflip as bf
from backflip.model import bodies_of

KINDS = ("fixed", "hinge", "slider", "ball", "universal")
ROLES = ("tree", "loop", "soft")
DT, STEPS = 1e-3, 2000
SCHEME = bf.Scheme(DT)
SETTLED = 100
"""steps that mend the start, whose velocities the joints did not allow"""
PIVOT = (0.0, 0.0, 0.0)


def add_joint(b: bf.Builder, kind: str, parent: str, child: str, name: str, **options) -> None:
    """A joint at the origin about a slanting axis, or along z."""
    if kind == "fixed":
        b.add_fixed(name, parent, child, position=PIVOT, **options)
    elif kind == "hinge":
        b.add_hinge(name, parent, child, position=PIVOT, axis=(0, 1, 0.5), **options)
    elif kind == "slider":
        b.add_slider(name, parent, child, position=PIVOT, axis=(0, 0, 1), **options)
    elif kind == "ball":
        b.add_ball_joint(name, parent, child, position=PIVOT, **options)
    else:
        b.add_universal(name, parent, child, position=PIVOT, axes=((0, 1, 0.5), (1, 0, 0)), **options)


def add_box(b: bf.Builder, name: str, place: float, mass: float = 1.0, **options) -> None:
    box, position = bf.Box((0.2, 0.3, 0.4)), (place, 0.05, 0.1)
    b.add_body(name, box, mass=mass, position=position, collide=False, **options)


def tumbling(role: str) -> bf.Model:
    """Per kind two boxes in zero gravity; loops go through a third, by a slider and a ball joint."""
    b = bf.Builder(gravity=(0, 0, 0))
    for kind in KINDS:
        one, two, three = (f"{kind} {k}" for k in "abc")
        add_box(b, one, -0.4, velocity=(0.3, -0.1, 0.2), spin=(0.4, 1.0, -0.8))
        add_box(b, two, 0.4, mass=2.0, velocity=(0.3, -0.1, -0.1), spin=(-0.6, -1.5, 1.2))
        if role == "loop":
            add_box(b, three, 0.0, mass=0.5, velocity=(0.3, 0, 0))
            b.add_slider(f"{kind} rail", one, three, position=PIVOT, axis=(0, 0, 1))
            b.add_ball_joint(f"{kind} bearing", three, two, position=PIVOT)
        add_joint(b, kind, one, two, kind, **({"frequency": 20.0} if role == "soft" else {}))
    return b.build()


measure = jax.jit(jax.vmap(bf.joint_error, in_axes=(None, 0)))


class Run:
    """A played model, looked at body by body."""

    def __init__(self, play, model: bf.Model, steps: int = STEPS):
        start = bf.rest(model)
        states = play(SCHEME, model, start, steps=steps)
        self.model = model
        self.states = jax.tree.map(lambda x, y: np.concatenate([x[None], y]), start, states)
        self.error = np.asarray(measure(model, states)[SETTLED:])
        bodies = jax.jit(bodies_of)(model)
        self.mass, self.inertia = np.asarray(bodies.mass), np.asarray(bodies.inertia)

    def momenta(self, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Linear and angular momentum (steps, 3) of some bodies."""
        i = [self.model.topology.body(name) for name in names]
        s, m = self.states, self.mass[i, None]
        P = m * s.v_WB[:, i]
        R, w = s.R_WB[:, i], s.w_WB[:, i]
        own = np.einsum("tnij,njk,tnlk,tnl->tni", R, self.inertia[i], R, w)
        return P.sum(1), (own + np.cross(s.p_WB[:, i], P)).sum(1)

    def energy(self, name: str) -> np.ndarray:
        i, s = self.model.topology.body(name), self.states
        own = np.einsum("tij,jk,tlk,tl->ti", s.R_WB[:, i], self.inertia[i], s.R_WB[:, i], s.w_WB[:, i])
        kinetic = self.mass[i] * (s.v_WB[:, i] ** 2).sum(-1) + (own * s.w_WB[:, i]).sum(-1)
        return kinetic / 2 + 9.81 * self.mass[i] * s.p_WB[:, i, 2]

    def worst(self, joint: str) -> float:
        return self.error[:, self.model.topology.joint(joint)].max()


@pytest.fixture(scope="module")
def tumbled(play):
    return cache(lambda role: Run(play, tumbling(role)))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_tumbling_pair_holds_together(tumbled, kind, role):
    run = tumbled(role)
    assert run.model.topology.joints[run.model.topology.joint(kind)].role == role
    assert run.worst(kind) < (1e-2 if role == "soft" else 1e-4)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_tumbling_pair_keeps_its_momenta(tumbled, kind, role):
    run = tumbled(role)
    for momentum in run.momenta([name for name in run.model.topology.bodies if name.startswith(kind)]):
        np.testing.assert_allclose(momentum, momentum[:1].repeat(STEPS + 1, 0), rtol=0, atol=1e-9)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_joint_leaves_free_moves_and_what_it_holds_does_not(tumbled, kind, role):
    run = tumbled(role)
    a, b = (run.model.topology.body(f"{kind} {k}") for k in "ab")
    s = jax.tree.map(lambda x: x[STEPS // 2 :], run.states)
    spin = np.linalg.norm(s.w_WB[:, b] - s.w_WB[:, a], axis=-1)
    carried = s.v_WB[:, a] + np.cross(s.w_WB[:, a], s.p_WB[:, b] - s.p_WB[:, a])
    slide = np.linalg.norm(s.v_WB[:, b] - carried, axis=-1)
    assert (spin.max() < 0.05) if kind in ("fixed", "slider") else (spin.mean() > 0.1)
    if kind in ("fixed", "slider"):
        assert (slide.max() < 0.05) if kind == "fixed" else (slide.mean() > 0.05)


@pytest.fixture(scope="module")
def hung(play) -> Run:
    b = bf.Builder()
    for kind in KINDS:
        for name, options in ((kind, {}), (f"{kind} stiff", {"frequency": 1e5})):
            add_box(b, name, 0.4, spin=(0, 2.0, 1.0) if kind != "fixed" else (0, 0, 0))
            add_joint(b, kind, "world", name, name, **options)
    return Run(play, b.build())


@pytest.mark.parametrize("kind", KINDS)
def test_a_box_hung_from_the_world_stays_hung(hung, kind):
    assert hung.worst(kind) < 1e-4
    place = hung.states.p_WB[-1, hung.model.topology.body(kind)]
    if kind == "slider":
        np.testing.assert_allclose(0.1 - place[2], 9.81 * 2**2 / 2, rtol=1e-3)
    if kind == "fixed":
        np.testing.assert_allclose(place, [0.4, 0.05, 0.1], atol=1e-12)


@pytest.mark.parametrize("kind", ["hinge", "ball", "universal"])
def test_a_frictionless_joint_keeps_energy(hung, kind):
    assert np.ptp(hung.energy(kind)[SETTLED:]) < 1e-3 * 9.81 * 0.4


@pytest.mark.parametrize("kind", KINDS)
def test_frequency_to_infinity_is_the_rigid_joint(hung, kind):
    rigid, stiff = (hung.model.topology.body(name) for name in (kind, f"{kind} stiff"))
    s = jax.tree.map(lambda x: x[500], hung.states)
    np.testing.assert_allclose(s.p_WB[stiff], s.p_WB[rigid], atol=2e-3)
    np.testing.assert_allclose(s.R_WB[stiff], s.R_WB[rigid], atol=5e-3)


def extremes(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times and values of the turning points, by parabolas through three samples."""
    k = np.flatnonzero((z[1:-1] - z[:-2]) * (z[2:] - z[1:-1]) < 0) + 1
    left, mid, right = z[k - 1], z[k], z[k + 1]
    offset = (left - right) / (left - 2 * mid + right) / 2
    return (k + 1 + offset) * DT, mid - (left - right) * offset / 4


def weld_swing(play, frequency: float, ratio: float) -> tuple[float, float]:
    """Angular frequency and decay rate [1/s] of a mass that drops onto a soft weld."""
    b = bf.Builder()
    b.add_body("mass", bf.Sphere(0.1), mass=3.0)
    b.add_fixed("weld", "world", "mass", frequency=frequency, damping_ratio=ratio)
    model = b.build()
    states = play(SCHEME, model, bf.rest(model), steps=600)
    sag = 9.81 / (2 * np.pi * frequency) ** 2
    t, z = extremes(np.asarray(states.p_WB[:, 0, 2]) + sag)
    return np.pi / (t[1] - t[0]), -np.log(abs(z[1] / z[0])) / (t[1] - t[0])


@pytest.mark.parametrize(
    "frequency, ratio",
    [
        (2.0, 0.2),
        (3.0, 0.5),
        (5.0, 0.1),
    ],
)
def test_a_soft_weld_swings_at_its_frequency_and_decays_by_its_ratio(play, frequency, ratio):
    swing, decay = weld_swing(play, frequency, ratio)
    omega = 2 * np.pi * frequency
    np.testing.assert_allclose(swing, omega * np.sqrt(1 - ratio**2), rtol=0.05)
    np.testing.assert_allclose(decay, ratio * omega, rtol=0.05)
