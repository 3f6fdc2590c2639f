"""Newton's equations of a problem: what a change of impulses does, and the change that is wanted.

All pushes are eliminated row by row, then the impulses in favour of what they move, so that the matrix to
factor has the size of the freedoms, however many rows there are.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from backflip.math import inverse
from backflip.solve import interval
from backflip.solve.friction import Friction
from backflip.solve.problem import Problem


class Point(NamedTuple):
    """Impulses and what belongs to them, or how they all change."""

    impulse: Array
    """(r,)"""
    room: Array
    push: Array
    """(b, 2) of the bounded rows, to and from either bound"""
    space: Array
    slip: Array
    """(k, ...) room and slip of friction"""


class Linear(NamedTuple):
    """weight dw + stay dλ = load for bounded rows; for tangents also + lean dλ_n."""

    weight: Array
    stay: Array
    """(b,)"""
    weights: Array
    stays: Array
    """(k, 2, 2)"""
    lean: Array
    """(k, 2)"""


def point_at(problem: Problem, friction: Friction, impulse: Array, kappa: Array) -> Point:
    """The point of the central path at κ that has these impulses."""
    bounded, tangents = problem.split(impulse)
    room = jnp.maximum(problem.room(bounded), jnp.finfo(impulse.dtype).eps ** 2)
    space = friction.room(problem.bound(bounded), tangents)
    return Point(impulse, room, problem.there() * kappa / room, space, friction.slip(space, kappa))


def sharp_point(problem: Problem, friction: Friction, impulse: Array) -> Point:
    """The end of the path at these impulses: of every room and push one is 0."""
    bounded, tangents = problem.split(impulse)
    w, sliding = problem.split(problem.velocity(impulse))
    room, push = interval.sharp(jnp.maximum(problem.room(bounded), 0), w, problem.there())
    return Point(impulse, room, push, *friction.sharp(problem.bound(bounded), tangents, sliding))


def linearise(problem: Problem, friction: Friction, at: Point) -> Linear:
    """The equations at a point."""
    weight, stay = interval.linear(at.room, at.push, problem.there())
    weights, stays, lean = friction.linear(at.space, at.slip)
    return Linear(weight, stay, weights, stays, lean * problem.friction[:, None])


def load(
    problem: Problem, friction: Friction, linear: Linear, at: Point, c: Array, cs: Array, dw: Array
) -> Array:
    """The right side (r,): wanted changes c (b, 2), cs (k, ...) of the products; dw (r,) that is there."""
    bounded, tangents = interval.load(at.room, problem.there(), c), friction.load(at.space, cs)
    return jnp.concatenate([bounded, tangents.reshape(-1)]) - weigh(problem, linear, dw)


def weigh(problem: Problem, linear: Linear, x: Array) -> Array:
    """weight x for x (r, ...)."""
    bounded, tangents = problem.split(x)
    bounded = linear.weight.reshape(-1, *(1,) * (x.ndim - 1)) * bounded
    tangents = jnp.einsum("kij,kj...->ki...", linear.weights, tangents)
    return jnp.concatenate([bounded, tangents.reshape(-1, *x.shape[1:])])


def apply(problem: Problem, linear: Linear, x: Array) -> Array:
    """The left side (r,) for dλ = x (r,)."""
    bounded, tangents = problem.split(x)
    stays = jnp.einsum("kij,kj->ki", linear.stays, tangents)
    stays = stays + linear.lean * problem.normals(bounded)[:, None]
    rest = jnp.concatenate([linear.stay * bounded, stays.reshape(-1)])
    return weigh(problem, linear, problem.response(x)) + rest


def soften(problem: Problem) -> Problem:
    """The same with some softness in every row: redundant rows then share what they bear in one way only.

    1e-6 in float64, 2e-3 in float32, where a row moves itself by 1: solving with it loses eps/softness² to
    rounding, and that a refinement mends.
    """
    least = float(jnp.finfo(problem.softness.dtype).eps) ** 0.38
    return problem._replace(softness=jnp.maximum(problem.softness, least))


def solver(problem: Problem, linear: Linear, refinements: int) -> Callable[..., Array]:
    """load (r,), and perhaps dλ (r,) to start from -> dλ (r,): solved as if softened, then refined.

    With B = stay + weight softness, block by block, and x = shareᵀ dλ:
        B dλ + weight share x = load,    (1 + shareᵀ B⁻¹ weight share) x = shareᵀ B⁻¹ load
    What redundant rows may share out at will stays as it is at the start.
    """
    soft, softs = problem.split(soften(problem).softness)
    B = linear.stay + linear.weight * soft
    B_t = _inverse2(linear.stays + linear.weights * softs[:, None, :])

    def undo(x: Array) -> Array:
        """B⁻¹ x for x (r, ...)."""
        bounded, tangents = problem.split(x)
        tail = (1,) * (x.ndim - 1)
        bounded = bounded / B.reshape(-1, *tail)
        rest = tangents - linear.lean.reshape(-1, 2, *tail) * problem.normals(bounded)[:, None]
        tangents = jnp.einsum("kij,kj...->ki...", B_t, rest)
        return jnp.concatenate([bounded, tangents.reshape(-1, *x.shape[1:])])

    gives = undo(weigh(problem, linear, problem.share))
    eye = jnp.eye(problem.share.shape[1], dtype=B.dtype)
    give = inverse(eye + problem.share.T @ gives)

    def softly(load: Array) -> Array:
        alone = undo(load)
        return alone - gives @ (give @ (alone @ problem.share))

    def solve(load: Array, start: Array | None = None) -> Array:
        found = softly(load) if start is None else start
        for _ in range(refinements):
            found = found + softly(load - apply(problem, linear, found))
        return found

    return solve


def _inverse2(A: Array) -> Array:
    """A⁻¹ of (k, 2, 2)."""
    a, b, c, d = A[:, 0, 0], A[:, 0, 1], A[:, 1, 0], A[:, 1, 1]
    turned = jnp.stack([jnp.stack([d, -b], -1), jnp.stack([-c, a], -1)], -2)
    return turned / (a * d - b * c)[:, None, None]


def nearest(problem: Problem, friction: Friction, impulse: Array) -> Array:
    """The allowed impulses (r,) nearest to some: bounded ones first, then friction within their bound."""
    bounded, tangents = problem.split(impulse)
    bounded = jnp.clip(bounded, problem.lower, problem.upper)
    return jnp.concatenate([bounded, friction.nearest(tangents, problem.bound(bounded)).reshape(-1)])


def residual(problem: Problem, friction: Friction, impulse: Array) -> Array:
    """(r,) how far the impulses are from where they, less w, are allowed; 0 at a solution."""
    wanted, (bounded, _) = impulse - problem.velocity(impulse), problem.split(impulse)
    normal, tangents = problem.split(wanted)
    normal = jnp.clip(normal, problem.lower, problem.upper)
    allowed = friction.nearest(tangents, problem.bound(bounded))
    return impulse - jnp.concatenate([normal, allowed.reshape(-1)])
