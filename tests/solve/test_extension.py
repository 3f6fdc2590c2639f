"""A solver and a law of friction from outside the package, by public names."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solve.problems import named_problem, solve

import backflip as bf
from backflip.robots import ball


class Jacobi(bf.Solver):
    """Projected Jacobi: all rows at once, with steps of 1/Σ|A|."""

    iterations: int = eqx.field(static=True, default=60)
    friction: bf.Friction = eqx.field(static=True, default=bf.Cone())
    gradient: bf.Unrolled = eqx.field(static=True, default=bf.Unrolled())

    def solve(self, rows, delassus, velocity):
        A = delassus.factor @ delassus.factor.T + jnp.diag(rows.softness)
        row_sum = jnp.where(jnp.diagonal(A) > rows.min_diagonal, jnp.sum(jnp.abs(A), -1), jnp.inf)

        def sweep(impulse, _):
            w = A @ impulse + velocity - rows.target
            scalar = jnp.clip((impulse - w / row_sum)[: rows.layout.scalars], rows.lower, rows.upper)
            contact, w, sums = (rows.layout.by_contact(x) for x in (impulse, w, row_sum))
            normal = jnp.maximum(contact[:, 0] - w[:, 0] / sums[:, 0], 0)
            bound = rows.friction * normal
            tangent = self.friction.update(contact[:, 1:], w[:, 1:], sums[:, 1:], bound)
            contact = jnp.concatenate([normal[:, None], tangent], -1)
            return jnp.concatenate([scalar, contact.reshape(-1)]), None

        return jax.lax.scan(sweep, rows.initial_impulse, None, length=self.iterations)[0]


def test_a_solver_from_outside_steps_a_sliding_ball_as_ours_do():
    model = ball(friction=0.4, restitution=0.0, velocity=(3.0, 0.5, -1.0))

    def speed(start, solver):
        return bf.step(bf.Scheme(0.01, solver), model, start).v_WB[0]

    for function in (speed, jax.jacrev(lambda start, solver: speed(start, solver)[:2])):
        ours, theirs = (function(bf.rest(model), s) for s in (bf.PGS(), Jacobi()))
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-9), theirs, ours)
    # it slides: friction takes μ times what the ground does
    lost = np.array([3.0, 0.5]) - np.asarray(speed(bf.rest(model), Jacobi())[:2])
    np.testing.assert_allclose(np.linalg.norm(lost), 0.4 * (1 + 0.01 * 9.81), rtol=1e-3)


def test_a_solver_without_a_friction_law_cannot_be_made():
    class Incomplete(bf.Solver):
        def solve(self, rows, delassus, velocity):
            return velocity

    with pytest.raises(TypeError, match="abstract"):
        Incomplete()


class Oiled(bf.Friction):
    """Coulomb's cone with a part of the friction: every method by those of Cone."""

    part: float = eqx.field(static=True)
    cone: bf.Cone = eqx.field(static=True, default=bf.Cone())

    def update(self, impulse, sliding, row_sum, bound):
        return self.cone.update(impulse, sliding, row_sum, self.part * bound)

    def project(self, impulse, bound):
        return self.cone.project(impulse, self.part * bound)

    def slack(self, bound, impulse):
        return self.cone.slack(self.part * bound, impulse)

    def product(self, slack, dual):
        return self.cone.product(slack, dual)

    def unit(self, bound):
        return self.cone.unit(bound)

    def central_dual(self, slack, kappa):
        return self.cone.central_dual(slack, kappa)

    def sliding(self, dual):
        return self.cone.sliding(dual)

    def linearise(self, slack, dual):
        C_w, C_lam, C_bound = self.cone.linearise(slack, dual)
        return C_w, C_lam, self.part * C_bound

    def right_hand_side(self, slack, dproduct):
        return self.cone.right_hand_side(slack, dproduct)

    def dual_step(self, slack, dual, dproduct, dslack, dsliding):
        return self.cone.dual_step(slack, dual, dproduct, dslack, dsliding)

    def step_to_boundary(self, x, dx):
        return self.cone.step_to_boundary(x, dx)

    def active_set(self, bound, impulse, sliding):
        return self.cone.active_set(self.part * bound, impulse, sliding)


def test_the_interior_point_takes_a_law_of_friction_from_outside():
    problem = named_problem("sliding")
    oiled = jax.jit(solve)(bf.InteriorPoint(friction=Oiled(0.5)), problem)
    half = jax.jit(solve)(bf.InteriorPoint(), problem._replace(friction=0.5 * problem.friction))
    np.testing.assert_allclose(oiled, half, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(oiled[4:]), 0.2 * oiled[3], rtol=1e-9)
