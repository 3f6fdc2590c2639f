"""Implicit gradients: both modes beside differences, redundant rows, ties, jams, and their factorisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solve.problems import BOUNDS, HAPPENS, Floats, named_problem, residual, rows_of, solve, stack
from solve.test_interior import directions, slab

from backflip.solve import PGS, Cone, Delassus, Implicit, Pyramid, Solution, elimination

SWEEPS = PGS(300, gradient=Implicit())


def motion(x: Floats, solver=SWEEPS):
    """What the impulses do to the freedoms: determined where impulses are not."""
    return solve(solver, x) @ x.factor


def check(problem: Floats, solver=SWEEPS, tolerance=1e-6, h=1e-5):
    """Tangents of the motion along one direction per field, beside differences, and beside the gradient."""
    ways = directions(problem)
    value = jax.jit(jax.vmap(lambda way: motion(jax.tree.map(jnp.add, problem, way), solver)))
    moved = [value(jax.tree.map(lambda d, k=k: k * h * d, ways)) for k in (1, -1, 2, -2)]
    differences = (8 * (moved[0] - moved[1]) - (moved[2] - moved[3])) / (12 * h)

    @jax.jit
    def both():
        pushed = jax.vmap(lambda way: jax.jvp(lambda x: motion(x, solver), (problem,), (way,))[1])(ways)
        weight = jnp.arange(1.0, 1 + pushed.shape[-1])
        (pulled,) = jax.vjp(lambda x: motion(x, solver), problem)[1](weight)
        along = jax.vmap(lambda way: sum(jnp.sum(d * g) for d, g in zip(way, pulled, strict=True)))(ways)
        return pushed, pushed @ weight, along

    pushed, weighted, along = both()
    size = float(np.abs(differences).max())
    np.testing.assert_allclose(pushed, differences, rtol=0, atol=tolerance * size)
    np.testing.assert_allclose(along, weighted, rtol=0, atol=1e-9 * float(np.abs(weighted).max()))


@pytest.mark.parametrize("name", ["sliding", "sticking", "separating", "servo saturated", "at the limit"])
def test_both_modes_agree_with_differences(name):
    check(named_problem(name))


def test_four_feet_that_stand_have_one_motion_whatever_each_bears():
    x = slab(jnp.array([0.02, -0.01, -0.5, 0.02, -0.01, 0.03, 1.0, 0.7, 0.2, 0.05, -0.03, 0.9]))
    forces = solve(SWEEPS, x)
    assert (forces[::3] > 0).all() and residual(SWEEPS, x, forces) < 1e-9

    def after(v):
        return v + motion(x._replace(velocity=x.factor @ v))

    # it stands still, so nothing of its velocity is left: to rounding, for either solution would do
    slope = jax.jit(jax.jacrev(after))(jnp.array([0.02, -0.01, -0.5, 0.02, -0.01, 0.03]))
    np.testing.assert_allclose(slope, 0, atol=1e-8)


def test_loop_rows_that_say_the_same_twice_have_the_gradient_of_one():
    bounds = jnp.full(3, -jnp.inf), jnp.full(3, jnp.inf)
    factor = jnp.array([[1.0, 0.5, 0.0], [1.0, 0.5, 0.0], [0.0, 0.2, 1.0]])
    no = jnp.zeros((0, 1))
    once = Floats(factor[1:], jnp.array([0.3, -0.1]), jnp.zeros(2), bounds[0][1:], bounds[1][1:], no)

    def twice(v):
        velocity = jnp.concatenate([v[:1], v])
        return motion(Floats(factor, velocity, jnp.zeros(3), *bounds, no))

    slope, wanted = (
        jax.jit(jax.jacrev(f))(once.velocity) for f in (twice, lambda v: motion(once._replace(velocity=v)))
    )
    np.testing.assert_allclose(slope, wanted, rtol=1e-8)


def with_impulses(x: Floats, impulse):
    """Impulses that somebody has found already, with their derivatives."""
    found = jnp.asarray(impulse, x.velocity.dtype)
    return Implicit().differentiate(
        lambda *_: Solution(found), Cone(), 0.0, rows_of(x), Delassus(x.factor), x.velocity
    )


def test_a_load_of_1000_on_1_stands_still_in_float32():
    normals, before = np.array([[1, 0], [-1, 1000**-0.5]]), np.array([-0.1, -3.0, 0.01, 0.3])
    factor = np.zeros((6, 4))
    factor[[0, 3], :2], factor[[1, 4], 2:] = normals, normals
    exact = np.linalg.lstsq(factor.T, -before)[0]
    fields = factor, factor @ before, np.zeros(6), np.zeros(0), np.zeros(0), np.full((2, 1), 0.5)
    x = Floats(*(jnp.asarray(field, jnp.float32) for field in fields))

    def after(v):
        return v + with_impulses(x._replace(velocity=x.factor @ v), exact) @ x.factor

    slope = jax.jit(jax.jacrev(after))(jnp.asarray(before, jnp.float32))
    np.testing.assert_allclose(slope, 0, atol=1e-2)


@pytest.mark.parametrize("friction", [Cone(), Pyramid()], ids=["cone", "pyramid"])
def test_where_a_row_begins_to_act_the_gradient_is_that_of_one_side(friction):
    # the limit and the normal touch without force, the servo is at its bound without slipping, as is friction
    factor, mu = jnp.eye(6), jnp.array([[0.5]])
    velocity, bounds = jnp.array([0.0, 0.0, 0.3, -1.0, 0.5, 0.0]), jnp.asarray(BOUNDS)
    x = Floats(factor, velocity, jnp.zeros(6), *bounds, mu)
    solver = PGS(5, friction, gradient=Implicit())
    slope_at = jax.jit(jax.jacrev(lambda v: solve(solver, x._replace(velocity=v))))
    for edge in (velocity, velocity.at[3].set(0.0), 0 * velocity):
        slope = slope_at(edge)
        assert np.isfinite(slope).all()
        assert all(min(abs(d), abs(d + 1)) < 1e-6 for d in np.diagonal(slope))


def test_impulses_that_solve_nothing_have_bounded_gradients():
    random = np.random.default_rng(0)
    problems = stack([named_problem(name)._replace(friction=jnp.array([[3.0]])) for name in HAPPENS] * 20)
    found = jnp.asarray(random.normal(size=problems.velocity.shape))
    slopes = jax.jit(jax.vmap(jax.jacrev(with_impulses)))(problems, found)
    assert all(np.abs(slope).max() < 1e6 for slope in slopes)


def test_second_derivatives_agree_with_differences():
    x, way = named_problem("sliding"), directions(named_problem("sliding")).velocity[1]

    def slope(v):
        return jax.jvp(lambda v: motion(x._replace(velocity=v)), (v,), (way,))[1]

    second = jax.jit(lambda v: jax.jvp(slope, (v,), (way,))[1])(x.velocity)
    h, value = 1e-5, jax.jit(slope)
    differences = (value(x.velocity + h * way) - value(x.velocity - h * way)) / (2 * h)
    np.testing.assert_allclose(second, differences, atol=1e-6 * np.abs(differences).max())


@pytest.mark.parametrize("most_written", [32, 2])
def test_elimination_inverts_and_leaves_an_arrow_an_arrow(most_written, monkeypatch):
    monkeypatch.setattr(elimination, "MOST_WRITTEN", most_written)
    arrow = np.eye(8, dtype=bool)
    arrow[:3], arrow[:, :3] = True, True
    M = np.where(arrow, np.random.default_rng(0).normal(size=(8, 8)) + 6 * np.eye(8), 0)
    factors, b = elimination.factorise(jnp.asarray(M)), jnp.arange(8.0)
    np.testing.assert_allclose(M @ elimination.solve_factorised(factors, b), b, atol=1e-12)
    assert not np.asarray(factors)[~arrow].any()
