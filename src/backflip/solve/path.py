"""The central path: impulses whose slacks times duals are κ, followed to a small κ by Newton's method.

Mehrotra's predictor-corrector, a fixed number of iterations. At the end of the path, κ = 0, the solution is
polished: Newton steps on the active set put every row onto its bound or to velocity 0.
"""

import jax
import jax.numpy as jnp
from jax import Array

from backflip.math import safe_divide
from backflip.solve import interval
from backflip.solve.equations import (
    Iterate,
    active_set_point,
    central_point,
    linearise,
    min_softness,
    newton_solver,
    project,
    regularise,
    residual,
    right_hand_side,
)
from backflip.solve.friction import Friction
from backflip.solve.problem import Problem
from backflip.solve.rows import Solution

MIN_WIDTH = 1e-9
"""Smallest μ, and smallest distance between two bounds: an interior point needs an interior"""
FRACTION_TO_BOUNDARY = 0.95
"""part of the way to the nearest boundary that a step goes"""
POLISHING_STEPS, LAST_STEPS = 8, 2
"""Newton steps on the active set, at the end of the path: of regularised rows, and from there without"""
REFINEMENTS = 1
"""iterative refinements of a Newton step; the next step corrects what is left"""


def attainable(kappa: Array) -> Array:
    """κ, but no smaller than rounding lets the path come to: 2e-12 in float64, 6e-6 in float32."""
    return jnp.maximum(kappa, jnp.finfo(kappa.dtype).eps ** 0.75)


def solve_scaled(
    problem: Problem, friction: Friction, kappa: Array, iterations: int, exact: bool
) -> Solution:  # fmt: skip
    """Impulses (r,) on the central path at κ, or, if `exact`, at its end."""
    if not exact:
        return Solution(follow_central_path(problem, friction, kappa, iterations))
    soft = regularise(problem)
    impulse = follow_central_path(soft, friction, kappa, iterations)
    impulse = polish(soft, friction, impulse, POLISHING_STEPS)
    return Solution(polish(problem, friction, impulse, LAST_STEPS), (impulse,), min_softness(impulse.dtype))


def follow_central_path(problem: Problem, friction: Friction, kappa: Array, iterations: int) -> Array:
    """Impulses (r,) of the central path at κ, or at the smallest attainable κ."""
    kappa, problem = attainable(kappa), with_interior(problem)

    def iterate(at: Iterate, _: None) -> tuple[Iterate, None]:
        new, converged = _predictor_corrector(problem, friction, kappa, at)
        return jax.tree.map(lambda old, new: jnp.where(converged, old, new), at, new), None

    return jax.lax.scan(iterate, _initial_point(problem, friction), None, length=iterations)[0].impulse


def polish(problem: Problem, friction: Friction, impulse: Array, steps: int) -> Array:
    """Impulses (r,) at the end of the path, from nearby ones, by Newton steps on the active set.

    The best of them. Where a contact barely slides or sticks, the path ends before it tells which: a step may
    lead away, to where the next ones know better.
    """

    def step(at: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        impulse, best = at
        impulse = _active_set_step(problem, friction, impulse)
        new, old = (_max_abs(residual(problem, friction, x)) for x in (impulse, best))
        return (impulse, jnp.where(new < old, impulse, best)), None

    start = project(problem, friction, impulse)
    return jax.lax.scan(step, (start, start), None, length=steps)[0][1]


def _active_set_step(problem: Problem, friction: Friction, impulse: Array) -> Array:
    """Impulses (r,) with which the rows of the active set are at their bounds, and all others hold."""
    at = active_set_point(problem, friction, impulse)
    bounded, tangents = problem.split(impulse)
    dproduct = -problem.slack(bounded) * at.dual
    cone_slack = friction.slack(problem.friction_bound(bounded), tangents)
    dcone = -friction.product(cone_slack, at.cone_dual)
    linear = linearise(problem, friction, at)
    dw = _dual_residual(problem, friction, at)
    rhs = right_hand_side(problem, friction, linear, at, dproduct, dcone, dw)
    return project(problem, friction, impulse + newton_solver(problem, linear, REFINEMENTS)(rhs))


def with_interior(problem: Problem) -> Problem:
    """The same with bounds at least MIN_WIDTH apart and μ at least MIN_WIDTH."""
    narrow = problem.upper - problem.lower < MIN_WIDTH
    upper = jnp.where(narrow, jnp.where(narrow, problem.lower, 0) + MIN_WIDTH, problem.upper)
    return problem._replace(upper=upper, friction=jnp.maximum(problem.friction, MIN_WIDTH))


def _initial_point(problem: Problem, friction: Friction) -> Iterate:
    """Half way between bounds, 1 or less from a single bound, 0 without; all products are 1.

    The further a row is from acting, the closer to its bound it begins: else its dual would have a long way.
    """
    has_bound = problem.has_bound()
    has_lower, has_upper = has_bound[:, 0], has_bound[:, 1]
    lower, upper = (jnp.where(jnp.isfinite(x), x, 0) for x in (problem.lower, problem.upper))
    has_both = has_lower * has_upper > 0
    slack = 1 / jnp.maximum(1, (has_lower - has_upper) * problem.split(problem.offset)[0])
    bounded = jnp.where(has_both, (lower + upper) / 2, lower + upper + (has_lower - has_upper) * slack)
    impulse = jnp.concatenate([bounded, jnp.zeros(2 * problem.friction.shape[0], bounded.dtype)])
    return central_point(problem, friction, impulse, jnp.ones((), bounded.dtype))


def _predictor_corrector(
    problem: Problem, friction: Friction, kappa: Array, at: Iterate
) -> tuple[Iterate, Array]:
    """One predictor and corrector; and whether `at` had converged already."""
    has_bound, unit = problem.has_bound(), friction.unit(problem.friction)
    linear = linearise(problem, friction, at)
    solve = newton_solver(problem, linear, REFINEMENTS)
    dw = _dual_residual(problem, friction, at)
    product, cone_product = at.slack * at.dual, friction.product(at.cone_slack, at.cone_dual)

    def newton_step(target: Array, second_order: Array, cone_second_order: Array) -> Iterate:
        dproduct = has_bound * target - product - second_order
        dcone = unit * target - cone_product - cone_second_order
        dlam = solve(right_hand_side(problem, friction, linear, at, dproduct, dcone, dw))
        bounded, tangents = problem.split(dlam)
        dslack = has_bound * jnp.stack([bounded, -bounded], -1)
        dcone_slack = friction.slack(problem.friction_bound(bounded), tangents)
        dsliding = problem.split(problem.response(dlam) + dw)[1]
        ddual = interval.dual_step(at.slack, at.dual, has_bound, dproduct, dslack)
        dcone_dual = friction.dual_step(at.cone_slack, at.cone_dual, dcone, dcone_slack, dsliding)
        return Iterate(dlam, dslack, ddual, dcone_slack, dcone_dual)

    predictor = newton_step(kappa, jnp.zeros_like(product), jnp.zeros_like(cone_product))
    length = jnp.minimum(1, _step_to_boundary(friction, at, predictor))
    predicted = _take_step(at, predictor, length)
    gap, predicted_gap = (_duality_measure(problem, friction, x) for x in (at, predicted))
    target = jnp.maximum(kappa, gap * jnp.clip(safe_divide(predicted_gap, gap, 0.0), 0, 1) ** 3)
    # the predictor's second-order term, for the part of the predictor that stays inside
    cone_second_order = length**2 * friction.product(predictor.cone_slack, predictor.cone_dual)
    corrector = newton_step(target, length**2 * predictor.slack * predictor.dual, cone_second_order)
    length = jnp.minimum(1, FRACTION_TO_BOUNDARY * _step_to_boundary(friction, at, corrector))
    new = _take_step(at, corrector, length)
    error = jnp.maximum(_max_abs(product - has_bound * kappa), _max_abs(cone_product - unit * kappa))
    eps = jnp.finfo(dw.dtype).eps
    return new, (error < eps**0.5 * kappa) & (_max_abs(dw) < 100 * eps)


def _dual_residual(problem: Problem, friction: Friction, at: Iterate) -> Array:
    """(r,) w less the velocity that the duals stand for."""
    w, sliding = problem.split(problem.velocity(at.impulse))
    w = w - (at.dual[:, 0] - at.dual[:, 1])
    return jnp.concatenate([w, (sliding - friction.sliding(at.cone_dual)).reshape(-1)])


def _take_step(at: Iterate, step: Iterate, length: Array) -> Iterate:
    # the length of a step does not change the point that is converged to
    length = jax.lax.stop_gradient(length)
    return Iterate(*(x + length * dx for x, dx in zip(at, step, strict=True)))


def _step_to_boundary(friction: Friction, at: Iterate, step: Iterate) -> Array:
    """The longest step that leaves all slacks and duals in their cones."""
    step, at = jax.lax.stop_gradient((step, at))
    lengths = [
        interval.step_to_boundary(at.slack, step.slack),
        interval.step_to_boundary(at.dual, step.dual),
        friction.step_to_boundary(at.cone_slack, step.cone_slack),
        friction.step_to_boundary(at.cone_dual, step.cone_dual),
    ]
    return jnp.min(jnp.concatenate([x.reshape(-1) for x in lengths]), initial=interval.MAX_STEP)


def _duality_measure(problem: Problem, friction: Friction, at: Iterate) -> Array:
    """The mean product of slack and dual."""
    has_bound, unit = problem.has_bound(), friction.unit(problem.friction)
    total = jnp.sum(has_bound * at.slack * at.dual)
    total = total + jnp.sum(unit * friction.product(at.cone_slack, at.cone_dual))
    return total / jnp.maximum(jnp.sum(has_bound) + jnp.sum(unit), 1)


def _max_abs(x: Array) -> Array:
    return jnp.max(jnp.abs(x), initial=0)
