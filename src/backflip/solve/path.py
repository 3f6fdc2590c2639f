"""The central path: impulses whose room times push is κ, found by Newton's method and followed to a small κ.

Mehrotra's predictor and corrector, a fixed number of them. At the end of the path, κ = 0, a few sharp steps
put every row where it belongs, onto its bound or to no velocity.
"""

import jax
import jax.numpy as jnp
from jax import Array

from backflip.math import safe_divide
from backflip.solve import interval
from backflip.solve.friction import Friction
from backflip.solve.newton import (
    Point,
    linearise,
    load,
    nearest,
    point_at,
    residual,
    sharp_point,
    solver,
)
from backflip.solve.problem import Problem

NARROW = 1e-9
"""Least μ, and least way between two bounds: with none there is no room to move in"""
AHEAD = 0.95
"""part of the way to the nearest bound that a step goes"""
SHARP = 2
"""sharp steps at the end of the path"""
REFINEMENTS = 1
"""of a step along the path or at its end: the next one mends what is left"""


def reachable(kappa: Array) -> Array:
    """κ, or the least that rounding lets the path come to: 2e-12 in float64, 6e-6 in float32."""
    return jnp.maximum(kappa, jnp.finfo(kappa.dtype).eps ** 0.75)


def follow(problem: Problem, friction: Friction, kappa: Array, iterations: int) -> Array:
    """Impulses (r,) of the central path at κ, or as near to its end as is reachable."""
    kappa, problem = reachable(kappa), widen(problem)

    def one(at: Point, _: None) -> tuple[Point, None]:
        new, done = _advance(problem, friction, kappa, at)
        return jax.tree.map(lambda old, new: jnp.where(done, old, new), at, new), None

    return jax.lax.scan(one, _begin(problem, friction), None, length=iterations)[0].impulse


def finish(problem: Problem, friction: Friction, impulse: Array) -> Array:
    """Impulses (r,) at the end of the path, from some near to it; never worse."""

    def one(impulse: Array, _: None) -> tuple[Array, None]:
        at = sharp_point(problem, friction, impulse)
        bounded, tangents = problem.split(impulse)
        c = -problem.room(bounded) * at.push
        cs = -friction.product(friction.room(problem.bound(bounded), tangents), at.slip)
        linear = linearise(problem, friction, at)
        miss = _miss(problem, friction, at)
        change = solver(problem, linear, REFINEMENTS)(load(problem, friction, linear, at, c, cs, miss))
        new = nearest(problem, friction, impulse + change)
        better = _worst(residual(problem, friction, new)) < _worst(residual(problem, friction, impulse))
        return jnp.where(better, new, impulse), None

    return jax.lax.scan(one, nearest(problem, friction, impulse), None, length=SHARP)[0]


def widen(problem: Problem) -> Problem:
    """The same with some room everywhere."""
    narrow = problem.upper - problem.lower < NARROW
    upper = jnp.where(narrow, jnp.where(narrow, problem.lower, 0) + NARROW, problem.upper)
    return problem._replace(upper=upper, friction=jnp.maximum(problem.friction, NARROW))


def _begin(problem: Problem, friction: Friction) -> Point:
    """Half way between bounds, 1 from a single bound, 0 without; all products are 1."""
    there = problem.there()
    low, high = there[:, 0], there[:, 1]
    lower, upper = (jnp.where(jnp.isfinite(x), x, 0) for x in (problem.lower, problem.upper))
    middle = jnp.where(low * high > 0, (lower + upper) / 2, lower + upper + low - high)
    impulse = jnp.concatenate([middle, jnp.zeros(2 * problem.friction.shape[0], middle.dtype)])
    return point_at(problem, friction, impulse, jnp.ones((), middle.dtype))


def _advance(problem: Problem, friction: Friction, kappa: Array, at: Point) -> tuple[Point, Array]:
    """One predictor and corrector; and whether `at` was good enough already."""
    there, one = problem.there(), friction.one(problem.friction)
    linear = linearise(problem, friction, at)
    solve = solver(problem, linear, REFINEMENTS)
    miss = _miss(problem, friction, at)
    product, products = at.room * at.push, friction.product(at.space, at.slip)

    def change(target: Array, second: Array, seconds: Array) -> Point:
        c, cs = there * target - product - second, one * target - products - seconds
        dl = solve(load(problem, friction, linear, at, c, cs, miss))
        bounded, tangents = problem.split(dl)
        room = there * jnp.stack([bounded, -bounded], -1)
        space = friction.room(problem.bound(bounded), tangents)
        sliding = problem.split(problem.response(dl) + miss)[1]
        push = interval.reply(at.room, at.push, there, c, room)
        return Point(dl, room, push, space, friction.reply(at.space, at.slip, cs, space, sliding))

    first = change(kappa, jnp.zeros_like(product), jnp.zeros_like(products))
    way = jnp.minimum(1, _longest(friction, at, first))
    gap, left = (_gap(problem, friction, x) for x in (at, _moved(at, first, way)))
    target = jnp.maximum(kappa, gap * jnp.clip(safe_divide(left, gap, 0.0), 0, 1) ** 3)
    # the predictor's second order counts as far as the predictor gets
    seconds = way**2 * friction.product(first.space, first.slip)
    second = change(target, way**2 * first.room * first.push, seconds)
    new = _moved(at, second, jnp.minimum(1, AHEAD * _longest(friction, at, second)))
    off = jnp.maximum(_worst(product - there * kappa), _worst(products - one * kappa))
    eps = jnp.finfo(miss.dtype).eps
    return new, (off < eps**0.5 * kappa) & (_worst(miss) < 100 * eps)


def _miss(problem: Problem, friction: Friction, at: Point) -> Array:
    """(r,) w less what the pushes make of it."""
    w, sliding = problem.split(problem.velocity(at.impulse))
    w = w - (at.push[:, 0] - at.push[:, 1])
    return jnp.concatenate([w, (sliding - friction.sliding(at.slip)).reshape(-1)])


def _moved(at: Point, by: Point, part: Array) -> Point:
    # how far it goes changes nothing where it has arrived
    part = jax.lax.stop_gradient(part)
    return Point(*(x + part * dx for x, dx in zip(at, by, strict=True)))


def _longest(friction: Friction, at: Point, by: Point) -> Array:
    """How much of a change leaves room and push everywhere."""
    by, at = jax.lax.stop_gradient((by, at))
    ends = [interval.longest(at.room, by.room), interval.longest(at.push, by.push)]
    ends += [friction.longest(at.space, by.space), friction.longest(at.slip, by.slip)]
    return jnp.min(jnp.concatenate([x.reshape(-1) for x in ends]), initial=interval.FAR)


def _gap(problem: Problem, friction: Friction, at: Point) -> Array:
    """The mean product."""
    there, one = problem.there(), friction.one(problem.friction)
    total = jnp.sum(there * at.room * at.push) + jnp.sum(one * friction.product(at.space, at.slip))
    return total / jnp.maximum(jnp.sum(there) + jnp.sum(one), 1)


def _worst(x: Array) -> Array:
    return jnp.max(jnp.abs(x), initial=0)
