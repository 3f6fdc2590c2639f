"""The central path: impulses whose room times push is κ, found by Newton's method and followed to a small κ.

Mehrotra's predictor and corrector. All pushes are eliminated row by row, then the impulses in favour of what
they move, so that the matrix to factor has the size of the freedoms, however many rows there are.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from backflip.math import dot, inverse_factors, matvec
from backflip.solve import interval
from backflip.solve.friction import Friction
from backflip.solve.problem import Problem

SLIPPERY = 1e-9
"""Least μ: with none there is no room for friction at all"""
AHEAD = 0.99
"""part of the way to the nearest bound that a step goes"""


class Point(NamedTuple):
    """Impulses and what belongs to them."""

    impulse: Array
    """(r,)"""
    room: Array
    push: Array
    """(b, 2) of the bounded rows"""
    space: Array
    slip: Array
    """(k, m) room and slip of friction"""


class Linear(NamedTuple):
    """weight dw + stay dλ = load for bounded rows; for tangents also + lean d(μ λ_n)."""

    weight: Array
    stay: Array
    """(b,)"""
    weights: Array
    stays: Array
    """(k, 2, 2)"""
    lean: Array
    """(k, 2) per change of the normal impulse"""


def there(problem: Problem) -> Array:
    """(b, 2) 1 for bounds that are finite, else 0."""
    bounds = jnp.stack([problem.lower, problem.upper], -1)
    return jnp.where(jnp.isfinite(bounds), 1, 0).astype(problem.offset.dtype)


def rooms(problem: Problem, impulse: Array) -> Array:
    """(b, 2) from the bounded impulses (b,) to their bounds; 1 where there is none."""
    bounds, x = jnp.stack([problem.lower, problem.upper], -1), impulse[:, None]
    finite = jnp.isfinite(bounds)
    bounds = jnp.where(finite, bounds, 0)
    return jnp.where(finite, (x - bounds) * jnp.array([1, -1], x.dtype), 1)


def begin(problem: Problem, friction: Friction) -> Point:
    """Half way between bounds, one from a single bound, 0 without; all products 1."""
    low, high = jnp.isfinite(problem.lower), jnp.isfinite(problem.upper)
    lower, upper = jnp.where(low, problem.lower, 0), jnp.where(high, problem.upper, 0)
    middle = jnp.where(low & high, (lower + upper) / 2, lower + upper + jnp.where(low, 1, 0) - jnp.where(high, 1, 0))
    impulse = jnp.concatenate([middle, jnp.zeros(2 * problem.friction.shape[0], middle.dtype)])
    room = rooms(problem, middle)
    bound = problem.friction * problem.normals(middle)
    space = friction.room(bound, jnp.zeros((*bound.shape, 2), bound.dtype))
    one = friction.one(bound)
    slip = one / bound.reshape(-1, *(1,) * (one.ndim - 1))
    return Point(impulse, room, there(problem) / room, space, slip)


def linearise(problem: Problem, friction: Friction, point: Point) -> Linear:
    """Newton's equations at a point, all pushes eliminated."""
    weight, stay, _ = interval.linear(point.room, point.push, there(problem))
    weights, stays, lean = friction.linear(point.space, point.slip)
    return Linear(weight, stay, weights, stays, lean * problem.friction[:, None])


def solver(problem: Problem, linear: Linear, damping: float) -> Callable[[Array], Array]:
    """load (r,) -> dλ (r,), linear, where `damping` is added to all softness.

    With B = stay + weight (softness + damping), block by block, and x = shareᵀ dλ:
        B dλ + weight share x = load,    (1 + shareᵀ B⁻¹ weight share) x = shareᵀ B⁻¹ load
    """
    soft, softs = problem.split(problem.softness + damping)
    B, Bs = linear.stay + linear.weight * soft, linear.stays + linear.weights * softs[:, None, :]
    Bs = _inverse2(Bs)

    def undo(x: Array) -> Array:
        """B⁻¹ x for x (r, ...)."""
        bounded, tangents = problem.split(x)
        tail = (1,) * (x.ndim - 1)
        bounded = bounded / B.reshape(-1, *tail)
        rest = tangents - linear.lean.reshape(-1, 2, *tail) * problem.normals(bounded)[:, None]
        tangents = jnp.einsum("kij,kj...->ki...", Bs, rest)
        return jnp.concatenate([bounded, tangents.reshape(-1, *x.shape[1:])])

    gives = undo(weigh(problem, linear, problem.share))
    eye = jnp.eye(problem.share.shape[1], dtype=B.dtype)
    V, W = inverse_factors(eye + problem.share.T @ gives)

    def solve(load: Array) -> Array:
        alone = undo(load)
        return alone - gives @ (V @ (W @ (alone @ problem.share)))

    return solve


def weigh(problem: Problem, linear: Linear, x: Array) -> Array:
    """weight x for x (r, ...)."""
    bounded, tangents = problem.split(x)
    bounded = linear.weight.reshape(-1, *(1,) * (x.ndim - 1)) * bounded
    tangents = jnp.einsum("kij,kj...->ki...", linear.weights, tangents)
    return jnp.concatenate([bounded, tangents.reshape(-1, *x.shape[1:])])


def _inverse2(A: Array) -> Array:
    """A⁻¹ of (k, 2, 2)."""
    a, b, c, d = A[:, 0, 0], A[:, 0, 1], A[:, 1, 0], A[:, 1, 1]
    turned = jnp.stack([jnp.stack([d, -b], -1), jnp.stack([-c, a], -1)], -2)
    return turned / (a * d - b * c)[:, None, None]


class _Move(NamedTuple):
    """A change of a Point."""

    impulse: Array
    room: Array
    push: Array
    space: Array
    slip: Array


def follow(problem: Problem, friction: Friction, kappa: Array, iterations: int) -> Point:
    """The point of the central path at κ, after at most `iterations` steps."""
    eps = jnp.finfo(problem.offset.dtype).eps
    problem = problem._replace(friction=jnp.maximum(problem.friction, SLIPPERY))
    kappa = jnp.maximum(kappa, eps**0.75)

    def one(point: Point, _: None) -> tuple[Point, None]:
        new, done = _advance(problem, friction, kappa, point)
        return jax.tree.map(lambda old, new: jnp.where(done, old, new), point, new), None

    return jax.lax.scan(one, begin(problem, friction), None, length=iterations)[0]


def _advance(problem: Problem, friction: Friction, kappa: Array, at: Point) -> tuple[Point, Array]:
    """One predictor and corrector; and whether `at` was good enough already."""
    dtype = at.impulse.dtype
    eps = jnp.finfo(dtype).eps
    exist, one = there(problem), friction.one(problem.friction)
    linear = linearise(problem, friction, at)
    solve = solver(problem, linear, float(eps) ** 0.6)
    miss = problem.velocity(at.impulse)
    bounded, tangents = problem.split(miss)
    bounded = bounded - (at.push[:, 0] - at.push[:, 1])
    sliding = _sliding(friction, at.slip)
    tangents = tangents - sliding
    miss = jnp.concatenate([bounded, tangents.reshape(-1)])

    have, haves = at.room * at.push, friction.product(at.space, at.slip)
    count = jnp.sum(exist) + jnp.sum(one)
    gap = (jnp.sum(exist * have) + jnp.sum(one * haves)) / count

    def move(c: Array, cs: Array) -> _Move:
        load = jnp.concatenate([interval.load(at.room, exist, c), friction.load(at.space, cs).reshape(-1)])
        dl = solve(load - weigh(problem, linear, miss))
        b, t = problem.split(dl)
        droom = exist * jnp.stack([b, -b], -1)
        dspace = friction.room(problem.friction * problem.normals(b), t)
        dpush = interval.reply(at.room, at.push, exist, c, droom)
        dw = problem.share @ (dl @ problem.share) + problem.softness * dl
        dslide = problem.split(dw + miss)[1]
        dslip = friction.reply(at.space, at.slip, cs, dspace, dslide)
        return _Move(dl, droom, dpush, dspace, dslip)

    def longest(m: _Move) -> Array:
        parts = [interval.longest(at.room, m.room), interval.longest(jnp.where(exist > 0, at.push, 1), m.push)]
        parts += [friction.longest(at.space, m.space), friction.longest(at.slip, m.slip)]
        return jnp.min(jnp.concatenate([x.reshape(-1) for x in parts]))

    first = move(exist * kappa - have, one * kappa - haves)
    step = jnp.minimum(1, longest(first))
    room, push = at.room + step * first.room, at.push + step * first.push
    space, slip = at.space + step * first.space, at.slip + step * first.slip
    gap_then = (jnp.sum(exist * room * push) + jnp.sum(one * friction.product(space, slip))) / count
    target = jnp.maximum(kappa, gap * jnp.clip(gap_then / gap, 0, 1) ** 3)
    second = move(
        exist * target - have - first.room * first.push,
        one * target - haves - friction.product(first.space, first.slip),
    )
    step = jnp.minimum(1, AHEAD * longest(second))
    new = Point(*(x + step * dx for x, dx in zip(at, second, strict=True)))
    off = jnp.maximum(jnp.max(jnp.abs(have - kappa * exist) * exist, initial=0), jnp.max(jnp.abs(haves - kappa * one), initial=0))
    missing = jnp.max(jnp.abs(miss), initial=0)
    done = (off < 0.1 * kappa) & (missing < 100 * eps)
    return new, done


def _sliding(friction: Friction, slip: Array) -> Array:
    """(k, 2) w_t as the slip has it."""
    return slip[..., 0] - slip[..., 1] if slip.ndim == 3 else slip[:, 1:]
