"""Newton's method on Coulomb's law: against the interior point, on robots, boxes and bodies apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solve.problems import HAPPENS, named_problem, random_problem, residual, solve, stack
from solve.test_interior import check_named

import backflip as bf
from backflip.robots import quadruped
from backflip.solve import InteriorPoint, Newton, Pyramid
from backflip.solve.problem import Problem
from backflip.solve.semismooth import first_bound


def test_newton_solves_1000_random_problems_as_the_interior_point_does():
    problems = stack([random_problem(seed) for seed in range(1000)])

    @jax.jit
    @jax.vmap
    def compare(x):
        newton, path = solve(Newton(), x), solve(InteriorPoint(), x)
        speed = jnp.max(jnp.abs(x.velocity))
        return jnp.max(jnp.abs(newton - path)) / jnp.max(jnp.abs(path)), residual(Newton(), x, newton) / speed

    impulses, missing = map(np.asarray, compare(problems))
    assert missing.max() < 1e-10
    assert impulses.max() < 1e-6


def test_what_problems_are_named_after_happens():
    impulses = jax.jit(jax.vmap(lambda x: solve(Newton(), x)))(stack([named_problem(n) for n in HAPPENS]))
    check_named(np.asarray(impulses))


def test_newton_has_no_pyramid():
    with pytest.raises(ValueError, match="give Cone"):
        Newton(friction=Pyramid())


@pytest.mark.parametrize("ratio", [100.0, 1000.0])
def test_a_box_many_times_heavier_stands_on_a_light_one(ratio):
    b = bf.Builder()
    b.add_ground(friction=0.6)
    for i, mass in enumerate((1.0, ratio)):
        b.add_body(f"box{i}", bf.Box((0.2, 0.2, 0.2)), mass=mass, position=(0, 0, 0.1 + 0.2 * i))
    model = b.build()
    end = bf.rollout(bf.Scheme(0.01, Newton()), model, bf.rest(model), jnp.zeros((50, 0))).last
    np.testing.assert_allclose(end.p_WB[:, 2], [0.1, 0.3], atol=1e-5)
    assert jnp.abs(end.v_WB).max() < 1e-5


RESIDUALS: list[float] = []


class Watched(Newton):
    """Tells the residual of every step."""

    def solve(self, rows, delassus, velocity):
        impulse = super().solve(rows, delassus, velocity)
        missing = self.residual(rows, delassus, velocity, impulse)
        jax.debug.callback(lambda x: RESIDUALS.append(float(x)), missing)
        return impulse


@pytest.mark.filterwarnings("ignore:.*debug_callback")
def test_a_stumbling_quadruped_is_solved_at_every_step():
    model = quadruped()
    t = 0.01 * np.arange(150)[:, None]
    u = 0.4 * np.sin(4 * np.pi * t + np.random.default_rng(0).uniform(0, 2 * np.pi, 8))
    RESIDUALS.clear()
    end = bf.rollout(bf.Scheme(0.01, Watched()), model, bf.rest(model), jnp.asarray(u)).last
    jax.block_until_ready(end.p_WB)
    jax.effects_barrier()
    assert len(RESIDUALS) >= 150 and np.median(RESIDUALS) < 1e-9
    assert np.quantile(RESIDUALS, 0.97) < 1e-4


@pytest.mark.parametrize(
    ("solver", "most"), [(Newton(), 0), (InteriorPoint(), 0), (InteriorPoint(smoothness=1e-4), 1e-2)]
)
def test_bodies_apart_push_each_other_with_no_force(solver, most):
    b = bf.Builder()
    b.add_body("capsule", bf.Capsule(0.05, 0.3), mass=1.0, position=(0, 0, 1))
    b.add_hinge("axle", "world", "capsule", position=(0, 0, 1.15), axis=(0, 1, 0))
    b.add_servo("axle", gain=20.0, max_velocity=5.0, max_torque=3.0)
    b.add_body("box", bf.Box((0.2, 0.2, 0.2)), mass=1.0, position=(0.6, 0, 1))
    model = b.build()
    u = 0.5 * jnp.sin(0.3 * jnp.arange(40.0))[:, None]
    states = bf.rollout(bf.Scheme(0.01, solver), model, bf.rest(model), u).state
    assert jnp.abs(states.force[:, 1:]).max() <= most
    assert jnp.abs(states.force[:, 0]).max() > 1


def test_a_step_ends_where_the_first_impulse_reaches_its_bound():
    zero = jnp.zeros(4)
    # a servo within ±2 and a contact with μ = 0.5
    problem = Problem(
        jnp.zeros((4, 1)), zero, zero, jnp.array([-2.0, 0]), jnp.array([2.0, jnp.inf]), jnp.array([0.5])
    )
    impulse = jnp.array([1.0, 1, 0, 0])
    for change, part in {(4, 0, 0, 0): 0.25, (0, -2, 0, 0): 0.5, (0, 0, 0, -5): 0.1, (0, 2, 1, 0): 1}.items():
        np.testing.assert_allclose(first_bound(problem, impulse, jnp.array(change, float)), part)
