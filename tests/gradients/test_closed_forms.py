"""Gradients against formulas: impacts, sliding to rest, a driven pendulum, a tossed cube.

Where the scheme is exact (flight without gravity, one impact) the tolerance is rounding; where it is of first
order in dt (sliding to rest, tumbling impacts) it is what a finer step leads to.
"""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from backflip import PGS, Box, Builder, Cone, Model, Pyramid, Scheme, Sphere, State, momentum, rest, step

PHASES = (np.arange(20) + 0.5) / 20
"""Where within its step an impact happens."""


def simulate(model: Model, state: State, steps: int, dt: float, u: Array | None = None) -> State:
    """The last state only; reverse mode is never taken of it."""
    return jax.lax.fori_loop(0, steps, lambda _, s: step(Scheme(dt=dt), model, s, u), state)


def with_motion(state: State, p: Array, v: Array) -> State:
    return replace(state, p_WB=p.reshape(-1, 3), v_WB=v.reshape(-1, 3))


def value_and_jacobian(f: Callable[[Array], Array]) -> Callable[[Array], tuple[Array, Array]]:
    return lambda x: (f(x), jax.jacfwd(f)(x))


# a ball without gravity that bounces once: h(T) = r − e (h + v T − r) while it flies up again


@pytest.mark.parametrize("restitution", [0.3, 0.6, 1.0])
def test_bouncing_ball_follows_its_closed_form_at_every_phase(restitution: float) -> None:
    dt, steps, radius, speed = 0.01, 20, 0.1, -2.0
    builder = Builder(gravity=(0, 0, 0))
    builder.add_ground()
    builder.add_body("ball", Sphere(radius), restitution=restitution, position=(0, 0, 1))
    model = builder.build()

    def height(x: Array) -> Array:
        start = with_motion(rest(model), jnp.array([0, 0, 1.0]).at[2].set(x[0]), jnp.zeros(3).at[2].set(x[1]))
        return simulate(model, start, steps, dt).p_WB[0, 2]

    heights = radius - speed * dt * (8 + jnp.asarray(PHASES))
    starts = jnp.stack([heights, jnp.full_like(heights, speed)], -1)
    ends, slopes = jax.jit(jax.vmap(value_and_jacobian(height)))(starts)
    T = steps * dt
    wanted = radius - restitution * (heights + speed * T - radius)
    np.testing.assert_allclose(ends, wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(slopes[:, 0], -restitution, rtol=1e-9)
    np.testing.assert_allclose(slopes[:, 1], -restitution * T, rtol=1e-9)


# two equal elastic balls meet head-on and swap: x₁(T) = x₂ + v₂ T − 2r


def two_balls(restitution: float, masses: tuple[float, float] = (1.0, 1.0)) -> Model:
    builder = Builder(gravity=(0, 0, 0))
    for name, mass, x in zip("ab", masses, (-1, 1), strict=True):
        ball = Sphere(0.1)
        builder.add_body(name, ball, mass=mass, friction=0, restitution=restitution, position=(x, 0, 0))
    return builder.build()


def test_head_on_balls_swap_and_so_do_their_gradients() -> None:
    dt, steps, radius = 0.01, 20, 0.1
    T, v1, v2 = steps * dt, 2.0, -1.0
    model = two_balls(1.0)

    def end(x: Array) -> Array:
        p = jnp.zeros((2, 3)).at[:, 0].set(x[:2])
        v = jnp.zeros((2, 3)).at[:, 0].set(x[2:])
        start = with_motion(rest(model), p, v)
        last = simulate(model, start, steps, dt)
        drift = jnp.abs(momentum(model, last) - momentum(model, start)).max()
        return jnp.stack([last.p_WB[0, 0], drift])

    x1 = -radius - v1 * dt * (8 + PHASES)
    x2 = radius - v2 * dt * (8 + PHASES)
    starts = jnp.stack([x1, x2, np.full_like(x1, v1), np.full_like(x1, v2)], -1)
    ends, slopes = jax.jit(jax.vmap(value_and_jacobian(end)))(starts)
    np.testing.assert_allclose(ends[:, 0], x2 + v2 * T - 2 * radius, rtol=0, atol=1e-12)
    np.testing.assert_allclose(slopes[:, 0], np.tile([0, 1, 0, T], (len(x1), 1)), rtol=0, atol=1e-9)
    # rounding of sums of order 1
    np.testing.assert_allclose(ends[:, 1], 0, atol=1e-15)


# two smooth balls meet obliquely: event-based solution, exact


def oblique_hit(x: Array, T: float, radius: float, masses: tuple[float, float], restitution: float) -> Array:
    """Last positions and velocities (12,) from the first: fly, exchange along the normal, fly."""
    p, v = x[:6].reshape(2, 3), x[6:].reshape(2, 3)
    d, w = p[1] - p[0], v[1] - v[0]
    # |d + w t| = 2r, the earlier root
    a, b, c = w @ w, d @ w, d @ d - 4 * radius**2
    t = (-b - jnp.sqrt(b * b - a * c)) / a
    n = (d + w * t) / (2 * radius)
    impulse = -(1 + restitution) * (n @ w) / (1 / masses[0] + 1 / masses[1])
    kick = jnp.stack([-impulse * n / masses[0], impulse * n / masses[1]])
    return jnp.concatenate([(p + v * T + kick * (T - t)).reshape(-1), (v + kick).reshape(-1)])


@pytest.mark.parametrize("restitution", [1.0, 0.5])
def test_oblique_hit_agrees_with_the_event_based_solution(restitution: float) -> None:
    dt, steps, radius, masses = 0.01, 20, 0.1, (1.0, 1.7)
    model = two_balls(restitution, masses)

    def end(x: Array) -> Array:
        last = simulate(model, with_motion(rest(model), x[:6], x[6:]), steps, dt)
        return jnp.concatenate([last.p_WB.reshape(-1), last.v_WB.reshape(-1)])

    v = jnp.array([[2.0, 0.3, 0.2], [-1.5, 0.1, -0.4]])
    side = jnp.array([[0.0, -0.04, -0.02], [0.0, 0.05, 0.03]])
    middle = side + jnp.array([[-0.07, 0, 0], [0.07, 0, 0]])
    starts = jnp.stack([jnp.stack([middle - v * dt * (8 + k), v]).reshape(-1) for k in PHASES])

    def truth(x: Array) -> Array:
        return oblique_hit(x, steps * dt, radius, masses, restitution)

    exact = jax.vmap(value_and_jacobian(truth))(starts)
    found = jax.jit(jax.vmap(value_and_jacobian(end)))(starts)
    for name, have, want in zip(("value", "jacobian"), found, exact, strict=True):
        error = float(jnp.abs(have - want).max() / jnp.abs(want).max())
        print(f"oblique hit, e = {restitution}: {name} {error:.1e}")
        assert error < 1e-5, name


# a box slides to rest: it goes v²/(2μg), and dx/dμ = −v²/(2μ²g)


def test_box_slides_to_rest_as_far_as_coulomb_says() -> None:
    dt, g, mu = 1e-3, 9.81, 0.5
    builder = Builder()
    builder.add_ground()
    builder.add_body("box", Box((0.4, 0.4, 0.1)), mass=1, friction=mu, position=(0, 0, 0.05))
    model = builder.build()

    def way(x: Array) -> Array:
        changed = replace(model, friction=jnp.full_like(model.friction, x[1]))
        start = replace(rest(changed), v_WB=jnp.zeros((1, 3)).at[0, 0].set(x[0]))
        return simulate(changed, start, 350, dt).p_WB[0, 0]

    speeds = 1.5 + mu * g * dt * jnp.linspace(0, 1, 8, endpoint=False)
    starts = jnp.stack([speeds, jnp.full_like(speeds, mu)], -1)
    ways, slopes = jax.jit(jax.vmap(value_and_jacobian(way)))(starts)
    wanted = {
        "distance": (ways, speeds**2 / (2 * mu * g)),
        "dx/dv": (slopes[:, 0], speeds / (mu * g)),
        "dx/dμ": (slopes[:, 1], -(speeds**2) / (2 * mu**2 * g)),
    }
    for name, (have, want) in wanted.items():
        error = float(jnp.abs(have / want - 1).max())
        print(f"slide to rest: {name} {error:.1e}")
        assert error < 0.01, name


# a pendulum driven by a constant torque: a heavier one lags behind


def test_driven_pendulum_lags_with_its_inertia() -> None:
    dt, steps, torque, inertia = 0.01, 300, 3.0, 0.05
    builder = Builder()
    builder.add_body("bob", mass=1, inertia=(inertia,) * 3, position=(0, 0, -0.5))
    builder.add_hinge("pivot", "world", "bob", position=(0, 0, 0), axis=(0, -1, 0))
    builder.add_motor("pivot")
    model = builder.build()

    def angles(I: Array) -> Array:
        changed = replace(model, inertia=model.inertia.at[0, 1, 1].set(I))

        def advance(state: State, _: None) -> tuple[State, Array]:
            state = step(Scheme(dt=dt), changed, state, jnp.array([torque]))
            p = state.p_WB[0]
            return state, jnp.arctan2(p[0], -p[2])

        path = jax.lax.scan(advance, rest(changed), None, length=steps)[1]
        return path[steps // 10 - 1 :: steps // 10]

    both = jax.jit(jax.vmap(lambda I: jax.jvp(angles, (I,), (jnp.ones_like(I),))))
    h = 1e-6
    path, slope = both(jnp.array([inertia, inertia + h, inertia - h]))
    differences = (path[1] - path[2]) / (2 * h)
    np.testing.assert_allclose(slope[0], differences, rtol=1e-6, atol=1e-6 * np.abs(slope[0]).max())

    # θ̈ = (τ − m g l sin θ) / (I + m l²), by a fine Runge-Kutta
    def exact(I: Array) -> Array:
        def rate(y: Array) -> Array:
            return jnp.stack([y[1], (torque - 9.81 * 0.5 * jnp.sin(y[0])) / (I + 0.25)])

        def advance(y: Array, _: None) -> tuple[Array, Array]:
            a = rate(y)
            b = rate(y + dt / 2 * a)
            c = rate(y + dt / 2 * b)
            y = y + dt / 6 * (a + 2 * b + 2 * c + rate(y + dt * c))
            return y, y[0]

        return jax.lax.scan(advance, jnp.zeros(2), None, length=steps)[1][steps // 10 - 1 :: steps // 10]

    wanted = jax.jacfwd(exact)(jnp.asarray(inertia))
    error = float(np.abs(slope[0] - wanted).max() / np.abs(wanted).max())
    print(f"pendulum: dθ/dI off by {error:.1e}, θ by {float(np.abs(path[0] - exact(inertia)).max()):.1e} rad")
    assert slope[0, 0] < 0  # while it first swings up, more inertia is less angle
    assert np.array_equal(np.sign(slope[0]), np.sign(wanted))
    assert error < 0.01


# a cube is tossed, hits the ground and flies on: gradients converge as dt shrinks


def toss(dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Where two cubes are after 0.6 s (2, 3), and Jacobians (2, 3, 6) in their first velocities and spins."""
    cube = {"mass": 1, "friction": 0.3, "restitution": 0.5, "rotation": (0.6, 0.4, 0.2)}
    builder = Builder()
    builder.add_ground()
    builder.add_body("cube", Box((0.2, 0.2, 0.2)), position=(0, 0, 0.5), **cube)
    model = builder.build()

    def end(x: Array) -> Array:
        thrown = replace(rest(model), v_WB=x[None, :3], w_WB=x[None, 3:])
        return simulate(model, thrown, round(0.6 / dt), dt).p_WB[0]

    # the first hits the ground with two corners, the second with three, and both fly again
    throws = jnp.array([[0.5, 0.3, -3.0, 0.0, 1.0, 1.0], [1.5, 0.3, -2.0, 0.0, 4.0, 1.0]])
    return tuple(np.asarray(y) for y in jax.jit(jax.vmap(value_and_jacobian(end)))(throws))


@pytest.mark.slow
def test_gradients_of_a_tossed_cube_converge() -> None:
    finest = toss(1e-4)
    errors = []
    for dt in (1e-2, 3e-3, 1e-3, 3e-4):
        value, slopes = toss(dt)
        errors.append(np.abs(slopes - finest[1]).max((1, 2)) / np.abs(finest[1]).max((1, 2)))
        off = np.abs(value - finest[0]).max(1)
        print(f"tossed cubes at dt {dt}: gradients off by {errors[-1]}, positions by {off} m")
    assert (errors[-1] < errors[0] / 10).all()
    assert (errors[-1] < 0.02).all()


@pytest.mark.parametrize("friction", [Cone(), Pyramid()], ids=["cone", "pyramid"])
def test_a_ball_at_rest_in_the_air_does_not_feel_the_ground(friction):
    b = Builder()
    b.add_ground(friction=1.0)
    b.add_body("ball", Sphere(0.2), mass=1.0, position=(0, 0, 1))
    model, scheme = b.build(), Scheme(0.01, PGS(friction=friction))

    def after(v):
        return step(scheme, model, replace(rest(model), v_WB=v[None])).v_WB[0]

    np.testing.assert_allclose(jax.jacrev(after)(jnp.zeros(3)), np.eye(3), atol=1e-12)
