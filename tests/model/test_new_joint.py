"""A joint from outside the package: a screw, described here alone, holds the laws that every joint holds."""

import warnings
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf
from backflip.math import cross, dot

Frames, moving, turning = bf.joints.Frames, bf.joints.moving, bf.joints.turning

PITCH = 0.05
"""[m/rad]"""


@dataclass(frozen=True)
class Screw(bf.JointKind):
    """Turns about z_A and moves along it by `pitch` [m/rad] of the angle."""

    pitch: float
    name = "screw"
    freedoms = 1
    axes = 1
    units = ("rad",)
    wraps = False
    slides = True

    def free(self, at: Frames):
        return [self._advance(at.axis_A(2))]

    def measures(self, at: Frames):
        return [turning(at.axis_A(2))]

    def held(self, at: Frames):
        x, y, z = (at.axis_A(i) for i in range(3))
        across = (moving(z) - self.pitch * turning(z)) / np.sqrt(1 + self.pitch**2)
        return [moving(x), moving(y), turning(x), turning(y), across]

    def turn_error(self, at: Frames):
        return cross(at.axis_A(2), at.axis_B(2))

    def error(self, at: Frames):
        return super().error(at) - moving(self.pitch * self.positions(at) * at.axis_A(2))

    def positions(self, at: Frames):
        angle = bf.joints.turn_angle(dot(at.axis_A(1), at.axis_B(0)), dot(at.axis_A(0), at.axis_B(0)))
        # how far it has moved tells how often it has turned
        turned = dot(at.axis_A(2), at.apart) / self.pitch
        return (angle + 2 * np.pi * jnp.round((turned - angle) / (2 * np.pi)))[:, None]

    def motion(self, q):
        return self.pitch * q[0] * jnp.eye(3, dtype=q.dtype)[2], bf.joints.rotation_about_axis(q[0], 2)

    def velocity_product(self, at: Frames, rates):
        turn = rates * cross(at.w_A, at.axis_A(2))
        return moving(2 * self.pitch * turn) + turning(turn)

    def _advance(self, z):
        return self.pitch * moving(z) + turning(z)


def nut_on_screw(*, free: bool = False, frequency: float | None = None) -> bf.Model:
    """A nut on a screw along a slanted axis, which is held by the world or flies."""
    b = bf.Builder(gravity=(0, 0, 0) if free else (0, 0, -9.81))
    b.add_body(
        "screw", bf.Box((0.1, 0.1, 0.4)), mass=2.0, group="all", spin=(0.3, -0.2, 0.5) if free else (0, 0, 0)
    )
    b.add_body("nut", bf.Box((0.2, 0.1, 0.05)), mass=1.0, position=(0, 0, 0.1), group="all")
    if not free:
        b.add_fixed("base", "world", "screw")
    b.add_joint(
        "thread", "screw", "nut", Screw(PITCH), position=(0, 0, 0.1), axes=((0, 0, 1),), frequency=frequency
    )
    b.add_motor("thread")
    b.add_sensor(bf.JointAngle("thread"), bf.JointRate("thread"), bf.Position("nut", relative_to="screw"))
    return b.build()


SCHEME = bf.Scheme(dt=0.005)


@eqx.filter_jit
def readings(model: bf.Model, torque: float, steps: int) -> tuple[jax.Array, bf.State]:
    path = bf.rollout(SCHEME, model, bf.rest(model), jnp.full((steps, 1), torque))
    return jax.vmap(bf.observe, (None, 0))(model, path.state), path.state


def test_a_nut_falls_as_its_inertia_and_pitch_say():
    model = nut_on_screw()
    seen, _ = readings(model, 0.0, 40)
    t = SCHEME.dt * np.arange(1, 41)
    inertia = 1.0 / 12 * (0.2**2 + 0.1**2)
    # (m pitch² + I) θ̈ = −m g pitch
    rate = -9.81 * PITCH / (PITCH**2 + inertia) * t
    np.testing.assert_allclose(seen[:, 1], rate, rtol=1e-9)


@pytest.mark.parametrize("free", [False, True])
def test_a_nut_advances_by_its_pitch(free: bool):
    model = nut_on_screw(free=free)
    seen, _ = readings(model, 0.03, 100)
    assert np.abs(seen[:, 0]).max() > 0.5
    np.testing.assert_allclose(seen[:, 4] - 0.1, PITCH * seen[:, 0], atol=2e-6)
    np.testing.assert_allclose(seen[:, 2:4], 0, atol=2e-6)


def test_a_flying_screw_keeps_both_momenta():
    model = nut_on_screw(free=True)
    _, states = readings(model, 0.01, 100)
    for law in (bf.momentum, bf.angular_momentum):
        value = jax.vmap(law, (None, 0))(model, states)
        np.testing.assert_allclose(
            value, jnp.broadcast_to(law(model, bf.rest(model)), value.shape), atol=1e-12
        )


def test_a_soft_screw_gives_way_and_comes_back():
    seen, _ = readings(nut_on_screw(free=True, frequency=20.0), 0.0, 100)
    np.testing.assert_allclose(seen[-20:, 4] - 0.1, PITCH * seen[-20:, 0], atol=2e-3)


def test_rest_places_a_nut_by_its_angle():
    model = nut_on_screw()
    state = bf.rest(model, jnp.array([0.7]))
    np.testing.assert_allclose(
        bf.observe(model, state)[jnp.array([0, 4])], [0.7, 0.1 + 0.7 * PITCH], rtol=1e-9
    )


def test_gradients_through_a_screw_agree_with_differences():
    model = nut_on_screw(free=True)

    @jax.jit
    def cost(mass, torque):
        changed = eqx.tree_at(lambda m: m.mass, model, mass)
        end = bf.rollout(SCHEME, changed, bf.rest(changed), jnp.full((30, 1), torque)).last
        return jnp.sum(bf.observe(changed, end) * jnp.arange(1.0, 6.0))

    at = model.mass, jnp.array(0.02)
    slopes = jax.jit(jax.grad(cost, (0, 1)))(*at)
    for i, slope in enumerate(slopes):
        step = 1e-5 * jnp.ones_like(at[i])
        up, down = ([x + s * step if k == i else x for k, x in enumerate(at)] for s in (1, -1))
        difference = (cost(*up) - cost(*down)) / 2e-5
        np.testing.assert_allclose(jnp.sum(slope), difference, rtol=1e-6)


def test_a_kind_whose_coordinates_do_not_fit_is_refused():
    @dataclass(frozen=True)
    class Odd(Screw):
        units = ("rad", "m")

    b = bf.Builder()
    b.add_body("nut", bf.Sphere(0.1))
    b.add_joint("odd", "world", "nut", Odd(0.1), axes=((0, 0, 1),))
    with pytest.raises(ValueError, match=r'joint "odd": a screw joint has 1 freedoms but 2 coordinates'):
        b.build()


def test_what_is_no_kind_of_joint_is_refused():
    b = bf.Builder()
    b.add_body("nut", bf.Sphere(0.1))
    b.add_joint("odd", "world", "nut", "hinge", axes=((0, 0, 1),))
    with pytest.raises(ValueError, match=r"joint \"odd\": 'hinge' is not a kind of joint"):
        b.build()


def test_a_kind_that_counts_turns_may_have_limits_beyond_a_turn():
    b = bf.Builder()
    b.add_body("nut", bf.Sphere(0.1))
    b.add_joint("thread", "world", "nut", Screw(PITCH), axes=((0, 0, 1),), limits=((-20.0, 0.0),))
    model = b.build()
    path = jax.jit(lambda: bf.rollout(SCHEME, model, bf.rest(model), steps=400))()
    q = bf.joint_positions(model, path.last)["thread"]
    np.testing.assert_allclose(q, -20.0, atol=2e-2)


def test_a_screw_that_reaches_the_ground_it_ignores_is_warned_of():
    def build(low: float) -> None:
        b = bf.Builder()
        b.add_ground()
        b.add_body("nut", bf.Sphere(0.1), position=(0, 0, 1))
        b.add_joint("thread", "world", "nut", Screw(PITCH), axes=((0, 0, 1),), limits=((low, 0.0),))
        b.build()

    with pytest.warns(UserWarning, match='"nut" hangs from the world by joint "thread" and so passes'):
        build(-30.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(-10.0)


@pytest.mark.parametrize("pitch", [np.array([0.05]), [0.05]])
def test_a_kind_that_cannot_be_hashed_is_refused(pitch):
    b = bf.Builder()
    b.add_body("nut", bf.Sphere(0.1))
    b.add_joint("odd", "world", "nut", Screw(pitch), axes=((0, 0, 1),))
    with pytest.raises(ValueError, match=r'joint "odd": .*frozen dataclass of plain values'):
        b.build()
