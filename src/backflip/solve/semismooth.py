"""Newton's method on Coulomb's law itself: for where every row is now, its law is linear.

A row is free, with w = 0, or at a bound; a contact sticks, slides or is apart. λ − w tells which (Alart and
Curnier 1991). Friction follows the normal impulse, so the matrix is not symmetric. A softness, centred on the
last impulses, keeps steps short and shrinks with what is left to solve. Rows are slightly soft at first, so
that redundant ones have one solution, and rigid from there on.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.math import dot, outer
from backflip.solve.elimination import factorise, solve_factorised
from backflip.solve.problem import Problem

ENOUGH = 0.9
"""of the squared residual: a step of length 1 that leaves less is taken"""
AT_BOUND = 1e-5
"""distance, where impulses are about 1, below which an impulse is at its bound"""
SOFTNESS, MAX_SOFTNESS = 3e-3, 0.3
"""of a step, where the diagonal of A is 1: per norm of the residual, and the largest"""
STIFFER, SOFTER = 0.5, 6.0
"""factors of the softness after a step that lessens the residual, and after one that does not"""
MOST_STUBBORN = 1e6
"""the largest product of these factors"""
STALLED, TOLERANT = 0.5, 3.5
"""of the residual: where a step leaves more, rounding may forbid less, and the tolerance is so many times"""
JAMMED, FAR = 6, 1e-3
"""every so many iterations all contacts are taken to stick, where the smallest residual is larger [m/s]"""
SHARPEST = 0.01
"""softness of a last step on soft rows, in parts of theirs"""
STIFFENING = {4: 0, 8: 3}
"""steps from soft rows to rigid ones, by the bytes of a number; 0: as many as it takes. In float64 the
gradient goes the same steps. More would wedge feet against each other, by rows that are nearly redundant"""
FOLLOWED = 1e-4
"""[m/s] where these steps leave more, soft rows led astray: rigid ones are solved by as many as it takes"""
SOFT_TOLERANCE = {4: 10.0, 8: 1.0}
"""times that of rigid rows, which begin from there, by the bytes of a number"""
LAST_ITERATIONS = {4: 0, 8: 3}
"""on soft rows once they are solved, by the bytes of a number: differences of float64 see how far the
division of a load among them has converged"""


class Iterate(NamedTuple):
    """Between two steps."""

    impulse: Array
    velocity: Array
    """(r,) λ and w"""
    square: Array
    """sum of squares of the residual"""
    violation: Array
    """[m/s] the largest"""
    stubbornness: Array
    """factor of the softness, at least 1"""
    best: Array
    best_velocity: Array
    """(r,) λ and w with the smallest residual so far"""
    best_violation: Array
    turn: Array
    """iterations made"""
    stalled: Array
    """whether the last step left much"""
    settled: Array
    """iterations since it was solved"""
    rigid: Array
    """whether rows are as rigid as they were given, or still soft"""
    soft: Array
    """(r,) best impulses of soft rows"""
    steps: tuple[Array, ...]
    """(r,) impulses after each of the first steps on rigid rows"""


class Law(NamedTuple):
    """Every row's law, linear as it is here: dλ = change − M dw, M contact by contact."""

    change: Array
    """(r,)"""
    mobility: Array
    """(b,) of bounded rows"""
    mobility_t: Array
    """(k, 2, 2) of tangents"""
    following: Array
    """(k, 2) friction that follows the normal impulse where a contact slides, per normal impulse"""

    def respond(self, problem: Problem, dw: Array) -> Array:
        """M dw for dw (r, ...)."""
        bounded, tangents = problem.split(dw)
        tail = (1,) * (dw.ndim - 1)
        response = self.mobility.reshape(-1, *tail) * bounded
        normal = problem.normals(response)[:, None]
        response_t = jnp.einsum("kij,kj...->ki...", self.mobility_t, tangents)
        response_t = response_t + self.following.reshape(-1, 2, *tail) * normal
        return jnp.concatenate([response, response_t.reshape(-1, *dw.shape[1:])])


def solve_semismooth(
    problem: Problem, softening: Array, unit: Array, impulse: Array, iterations: int
) -> list[Array]:  # fmt: skip
    """Impulses (r,) of soft rows and after steps from there to rigid ones; unit (r,) [m/s] is that of w.

    From nearby ones. First of rows softer by `softening` (r,), whose solution does not depend on where it
    began; from there of rigid ones. Where these are free, stick or slide otherwise, all are of rigid rows.
    """
    soft_problem = problem._replace(softness=problem.softness + softening)
    last, stiffening = (x[unit.dtype.itemsize] for x in (LAST_ITERATIONS, STIFFENING))
    soft_tolerance = SOFT_TOLERANCE[unit.dtype.itemsize]

    def is_solved(at: Iterate) -> Array:
        least = _tolerance(unit) * jnp.where(at.rigid, 1, soft_tolerance)
        return at.best_violation < least * jnp.where(at.stalled, TOLERANT, 1)

    def next_stage(at: Iterate) -> Iterate:
        """On to rigid rows where soft ones are solved, or will not be."""
        settled = at.settled + is_solved(at)
        stiffens = ~at.rigid & ((settled > last) | (at.turn >= iterations))
        rigid = _begin(problem, unit, at.best, at.best_velocity - softening * at.best, stiffening)
        rigid = rigid._replace(rigid=at.rigid | stiffens, soft=at.best)
        at = at._replace(settled=settled)
        return jax.tree.map(lambda new, old: jnp.where(stiffens, new, old), rigid, at)

    def unsolved(at: Iterate) -> Array:
        wanted = (at.turn < iterations) & ~is_solved(at)
        if stiffening:
            followed = (at.turn == stiffening) & (at.violation < FOLLOWED)
            wanted = (at.turn < stiffening) | (wanted & ~followed)
        return ~at.rigid | wanted

    def iterate(at: Iterate) -> Iterate:
        min_softness = jnp.where(at.rigid, 1, SHARPEST) * softening
        softness = jnp.where(at.rigid, problem.softness, soft_problem.softness)
        after = _iterate(problem._replace(softness=softness), unit, at, min_softness)
        steps = tuple(jnp.where(at.turn <= k, after.impulse, x) for k, x in enumerate(at.steps))
        return next_stage(after._replace(steps=steps))

    impulse = project(problem, impulse)
    start = next_stage(_begin(soft_problem, unit, impulse, soft_problem.velocity(impulse), stiffening))
    end = jax.lax.while_loop(unsolved, iterate, start)
    followed = (end.turn == stiffening) if stiffening else True
    impulse = jnp.where(followed, end.steps[-1], end.best) if stiffening else end.best
    states = [_states(p, softening, x) for p, x in ((soft_problem, end.soft), (problem, impulse))]
    followed &= jnp.all(states[0] == states[1])
    return [*(jnp.where(followed, x, impulse) for x in (end.soft, *end.steps[:-1])), impulse]


def _states(problem: Problem, softness: Array, impulse: Array) -> Array:
    """(b + k,) which rows are free, and which contacts slide."""
    law = linearise(problem, softness, impulse, problem.velocity(impulse))
    return jnp.concatenate([law.mobility > 0, jnp.any(law.following != 0, -1)])


def _tolerance(unit: Array) -> float:
    """[m/s] 3e-5 in float32, 1e-13 in float64: the last step ends far below."""
    return 120 * float(jnp.finfo(unit.dtype).eps) ** 0.96


def _begin(problem: Problem, unit: Array, impulse: Array, velocity: Array, steps: int) -> Iterate:
    square, violation = _size(residual(problem, impulse, velocity), unit)
    none, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    return Iterate(
        impulse, velocity, square, violation, jnp.ones_like(square),
        impulse, velocity, violation, none, no, none,
        no, impulse, (impulse,) * steps,
    )  # fmt: skip


def _iterate(problem: Problem, unit: Array, at: Iterate, min_softness: Array) -> Iterate:
    """One step; min_softness (r,)."""
    dlam, dw = _newton_step(problem, at, min_softness)
    length, square = _length(problem, at, dlam, dw)
    impulse = project(problem, at.impulse + length * dlam)
    velocity = problem.velocity(impulse)
    new, violation = _size(residual(problem, impulse, velocity), unit)
    factor = jnp.where(square < at.square, STIFFER, SOFTER)
    stubbornness = jnp.clip(at.stubbornness * factor, 1, MOST_STUBBORN)
    better = violation < jnp.maximum(at.best_violation, _tolerance(unit))
    return at._replace(
        impulse=impulse,
        velocity=velocity,
        square=new,
        violation=violation,
        stubbornness=stubbornness,
        best=jnp.where(better, impulse, at.best),
        best_velocity=jnp.where(better, velocity, at.best_velocity),
        best_violation=jnp.where(better, violation, at.best_violation),
        turn=at.turn + 1,
        stalled=violation > STALLED * at.violation,
    )


def _newton_step(problem: Problem, at: Iterate, min_softness: Array) -> tuple[Array, Array]:
    """Changes (r,) of λ and w to where every row's law, linear as it is here, holds."""
    factor = problem.factor
    softness = jnp.clip(at.stubbornness * SOFTNESS * jnp.sqrt(at.square), min_softness, MAX_SOFTNESS)
    # where a foot that slides jams, Newton's method swings between two ways to slide, and sticking solves it
    jammed = ~at.rigid & (at.turn % JAMMED == JAMMED - 1) & (at.best_violation > FAR)
    law = linearise(problem, softness, at.impulse, at.velocity, jammed)
    dw = factor @ solve_factorised(factorise(_matrix(problem, law)), law.change @ factor)
    dlam = law.change - law.respond(problem, dw)
    return dlam, dw + problem.softness * dlam


def _matrix(problem: Problem, law: Law) -> Array:
    """1 + factorᵀ M factor (f, f): normals apart, as only theirs is not symmetric."""
    k = law.following.shape[0]
    bounded, tangents = problem.split(problem.factor)
    scalars, normals = bounded[: bounded.shape[0] - k], problem.normals(bounded)
    mobility = law.mobility[:, None] * bounded
    sliding = jnp.einsum("kij,kjf->kif", law.mobility_t, tangents)
    rows = jnp.concatenate([scalars, tangents.reshape(-1, scalars.shape[1])])
    moved = jnp.concatenate([mobility[: len(scalars)], sliding.reshape(-1, scalars.shape[1])])
    along = normals + jnp.sum(law.following[..., None] * tangents, 1)
    eye = jnp.eye(scalars.shape[1], dtype=scalars.dtype)
    symmetric = rows.T @ moved
    # a half that is only copied is not computed
    symmetric = jnp.where(np.triu(np.ones(eye.shape, bool)), symmetric, symmetric.T)
    return eye + symmetric + along.T @ problem.normals(mobility)


def _length(problem: Problem, at: Iterate, dlam: Array, dw: Array) -> tuple[Array, Array]:
    """The length of a step and its squared residual: 1, or less where that is better.

    Where rows are redundant, a step that gives the residual to others meets bounds long before its end: the
    first is as far as it leads.
    """

    def square(length: Array) -> Array:
        missing = residual(problem, at.impulse + length * dlam, at.velocity + length * dw)
        return dot(missing, missing)

    full, first = jnp.ones_like(at.square), first_bound(problem, at.impulse, dlam)
    whole, part = square(full), square(first)
    take = (whole < ENOUGH * at.square) | (whole < part)
    return jnp.where(take, full, first), jnp.where(take, whole, part)


def first_bound(problem: Problem, impulse: Array, change: Array) -> Array:
    """The part of a change, at most 1, after which the first impulse within its bounds reaches one."""
    (bounded, tangents), (rise, turn) = problem.split(impulse), problem.split(change)
    room = jnp.abs(jnp.where(rise > 0, problem.upper, problem.lower) - bounded)
    radius, growth = problem.friction_bound(bounded), problem.friction_bound(rise)
    # |λ_t + t dλ_t|² = μ² (λ_n + t dλ_n)²
    a, b = dot(turn, turn) - growth * growth, dot(tangents, turn) - radius * growth
    inside = radius * radius - dot(tangents, tangents)
    slope = b + jnp.sqrt(jnp.maximum(b * b + a * inside, 0))
    parts = _quotient(room, jnp.abs(rise), room > AT_BOUND)
    parts_t = _quotient(inside, slope, inside > AT_BOUND * radius * radius)
    return jnp.min(jnp.concatenate([parts, parts_t]))


def _quotient(a: Array, b: Array, where: Array) -> Array:
    """a / b where that is asked and less than 1, else 1."""
    where = where & (a < b)
    return jnp.where(where, a / jnp.where(where, b, 1), 1)


def _size(missing: Array, unit: Array) -> tuple[Array, Array]:
    return dot(missing, missing), jnp.max(jnp.abs(missing) * unit)


def linearise(
    problem: Problem, softness: Array, impulse: Array, velocity: Array, sticking: Array | bool = False
) -> Law:
    """The law at impulses and velocities, softened around them; `sticking`: no contact slides."""
    (bounded, tangents), (w, w_t) = problem.split(impulse), problem.split(velocity)
    soft = problem.softness + softness
    (_, soft_t), (stiff, stiff_t) = problem.split(soft), problem.split(1 / soft)
    trial = bounded - w
    free = (trial > problem.lower) & (trial < problem.upper)
    mobility = jnp.where(free, stiff, 0)
    change = jnp.where(free, -w * stiff, jnp.clip(trial, problem.lower, problem.upper) - bounded)
    normal, pressing = problem.normals(bounded), problem.normals(trial) > 0
    bound = problem.friction * jnp.maximum(normal, 0)
    radius = jnp.where(normal > 0, bound, problem.friction * problem.normals(trial))
    trial_t = tangents - w_t
    square = dot(trial_t, trial_t)
    moves = square > 0
    inverse = jax.lax.rsqrt(jnp.where(moves, square, 1))
    slides = pressing & (square > radius * radius) & ~jnp.asarray(sticking)
    sticks = pressing & ~slides
    along = trial_t * inverse[:, None]
    across = jnp.stack([-along[:, 1], along[:, 0]], -1)
    turning = jnp.where(moves, jnp.minimum(bound * inverse, 1), 0)
    resistance = 1 / (1 - turning + turning * dot(soft_t, across * across))
    slid = (problem.friction * (normal + problem.normals(change)) - dot(tangents, along))[:, None] * along
    slid = slid - (dot(tangents, across) * resistance)[:, None] * across
    apart = jnp.where(sticks[:, None], -w_t * stiff_t, -tangents)
    change_t = jnp.where(slides[:, None], slid, apart)
    mobility_t = jnp.where(sticks[:, None], stiff_t, 0)[..., None] * jnp.eye(2, dtype=soft.dtype)
    mobility_t = mobility_t + outer(jnp.where(slides, turning * resistance, 0)[:, None] * across, across)
    following = jnp.where(slides, problem.friction, 0)[:, None] * along
    return Law(jnp.concatenate([change, change_t.reshape(-1)]), mobility, mobility_t, following)


def project(problem: Problem, impulse: Array) -> Array:
    """Impulses (r,) projected onto their bounds, then friction onto the disc of the new normals."""
    bounded, tangents = problem.split(impulse)
    bounded = jnp.clip(bounded, problem.lower, problem.upper)
    return jnp.concatenate([bounded, _disc(tangents, problem.friction_bound(bounded)).reshape(-1)])


def residual(problem: Problem, impulse: Array, velocity: Array) -> Array:
    """(r,) λ − project(λ − w); 0 at a solution."""
    trial, (bounded, _) = impulse - velocity, problem.split(impulse)
    normal, tangents = problem.split(trial)
    normal = jnp.clip(normal, problem.lower, problem.upper)
    admissible = _disc(tangents, jnp.maximum(problem.friction_bound(bounded), 0))
    return impulse - jnp.concatenate([normal, admissible.reshape(-1)])


def _disc(tangents: Array, bound: Array) -> Array:
    """Scaled to at most `bound`."""
    square = dot(tangents, tangents)
    outside = square > bound * bound
    factor = jnp.where(outside, bound * jax.lax.rsqrt(jnp.where(outside, square, 1)), 1)
    return tangents * factor[:, None]
