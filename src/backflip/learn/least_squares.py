"""One identification as a least-squares problem, and the optimizers that bring it down."""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics import Scheme
from backflip.learn.angles import nearest_turn
from backflip.learn.parameters import Layout
from backflip.learn.recording import Recording
from backflip.learn.residual_cost import ResidualCost
from backflip.learn.rollout import rollout
from backflip.model import Model, State, rest

if TYPE_CHECKING:
    import optax


class Problem(eqx.Module):
    """What is compared with what; functions are static, so that equal problems are compiled once."""

    scheme: Scheme
    recorded: Recording
    """with a leading axis (runs,), and 0 where a sample is missing"""
    present: Array
    """(runs, samples, channels) 1, and 0 where a sample is missing"""
    noise: Array
    """(channels,)"""
    scale: Array
    """what residuals are multiplied by, so that the first Jacobian has length 1"""
    first: Array
    """(p,) free numbers of the first guess"""
    trust: Array
    """1 / standard deviation of the first guess, in free numbers; 0: it is only a start"""
    residual_cost: ResidualCost
    layout: Layout = eqx.field(static=True)
    theta_to_model: Callable = eqx.field(static=True)
    sense: Callable = eqx.field(static=True)
    angles: tuple[int, ...] = eqx.field(static=True, default=())
    """channels that are continuous angles"""

    def readings(self, free: Array) -> Array:
        """(runs, samples, channels) what a simulation with these parameters would have observed."""
        built = self.theta_to_model(self.layout.theta(free))
        model, start = built if isinstance(built, tuple) else (built, self.recorded.start)
        steps, every, mean = self.recorded.steps, self.recorded.every, self.recorded.averaged
        angles = list(self.angles)

        def one(start: State | None, controls: Array | None, observed: Array, present: Array) -> Array:
            begin = rest(model) if start is None else start
            states = rollout(self.scheme, model, begin, controls, steps=steps).state
            taken = jax.tree.map(lambda x: x[every - 1 :: every], states)
            read = jax.vmap(self.sense, (None, 0))(model, taken)
            if not (mean or angles):
                return read
            all_along = read if every == 1 else jax.vmap(self.sense, (None, 0))(model, states)
            if mean:
                read = read.at[:, mean].set(all_along[:, mean].reshape(-1, every, len(mean)).mean(1))
            if angles:
                turning = jnp.unwrap(all_along[:, angles], axis=0)[every - 1 :: every]
                turning = nearest_turn(turning, observed[:, angles], present[:, angles])
                read = read.at[:, angles].set(turning)
            return read

        runs, axes = self.recorded.observed.shape[0], (_axis(start), _axis(self.recorded.controls), 0, 0)
        data = self.recorded.controls, self.recorded.observed, self.present
        return jax.vmap(one, axes, axis_size=runs)(start, *data)

    def data_digest(self) -> Array:
        """(8,) a SHA-256 of what is compared: readings, controls, initial states and noise, in float32."""
        recorded = self.recorded
        digest = hashlib.sha256(repr((recorded.every, recorded.averaged, self.angles)).encode())
        for leaf in jax.tree.leaves((recorded, self.present, self.noise)):
            array = np.asarray(leaf, np.float32)
            digest.update(repr(array.shape).encode() + array.tobytes())
        return jnp.asarray(np.frombuffer(digest.digest(), np.uint32))

    def off(self, free: Array) -> Array:
        """(runs, samples, channels) simulated minus recorded, in units of the noise; 0 where missing."""
        off = (self.readings(free) - self.recorded.observed) / self.noise
        return jnp.where(self.present > 0, off, 0)

    def residuals(self, free: Array) -> Array:
        """(m + p,) so that their squares add up to the mean cost of a sample, times scale².

        The last p say how far theta is from what the first guess is trusted to be.
        """
        roots = self.residual_cost.signed_root(self.off(free)).reshape(-1)
        both = jnp.concatenate([roots, self.trust * (free - self.first)])
        return both * (self.scale / jnp.sqrt(self.present.sum()))

    def cost(self, free: Array) -> Array:
        """Mean cost of a sample: the mean square where the residual cost is Square."""
        r = self.residuals(free)
        return jnp.sum(r * r) / self.scale**2


def _axis(tree: Any) -> int | None:
    return None if tree is None else 0


def with_jacobian(problem: Problem, free: Array) -> tuple[Array, Array]:
    """Residuals (m,) and their Jacobian (m, p), forwards: a parameter is a lane."""

    def twice(free: Array) -> tuple[Array, Array]:
        r = problem.residuals(free)
        return r, r

    J, r = jax.jacfwd(twice, has_aux=True)(free)
    return r, J


def residuals_for_solvers(problem: Problem) -> Callable[[Array, Any], tuple[Array, None]]:
    """The residuals as optimistix wants them: differentiated once, however often they are asked."""

    @jax.custom_jvp
    def residuals(free: Array) -> Array:
        return problem.residuals(free)

    @residuals.defjvp
    def _(primals, tangents):
        r, J = with_jacobian(problem, *primals)
        return r, J @ tangents[0]

    return lambda free, args: (residuals(free), None)


class SearchState(eqx.Module):
    """Where a search is; a checkpoint is this, written to disk."""

    free: Array
    """(p,) the best so far"""
    cost: Array
    """of it"""
    inner: Any
    """the optimizer's own state"""
    first: Array
    """(p,) where it began"""
    digest: Array
    """(8,) of the data that are compared"""
    done: Array
    """updates done"""
    ended: Array
    """whether the optimizer came to its end"""


def is_first_order(optimizer: Any) -> bool:
    """Whether it is an optimiser of optax, not a solver of optimistix."""
    import optax

    return isinstance(optimizer, optax.GradientTransformation)


@eqx.filter_jit
def begin(problem: Problem, optimizer: Any, free: Array, digest: Array) -> SearchState:
    """Before the first update; `digest` is that of problem.data_digest()."""
    if is_first_order(optimizer):
        inner: Any = free, optimizer.init(free)
    else:
        fn = residuals_for_solvers(problem)
        out = jax.eval_shape(lambda y: fn(y, None)[0], free)
        inner = optimizer.init(fn, free, None, {}, out, None, frozenset())
    unknown = jnp.full((), jnp.inf, free.dtype)
    return SearchState(free, unknown, inner, free, digest, jnp.asarray(0), jnp.asarray(False))


@eqx.filter_jit
def advance(problem: Problem, optimizer: Any, state: SearchState) -> SearchState:
    """One update: one simulation with its derivative."""
    if is_first_order(optimizer):
        return _descend(problem, optimizer, state)
    fn = residuals_for_solvers(problem)
    free, inner, _ = optimizer.step(fn, state.free, None, {}, state.inner, frozenset())
    ended, _ = optimizer.terminate(fn, free, None, {}, inner, frozenset())
    r = inner.f_info.residual
    cost = jnp.sum(r * r) / problem.scale**2
    return SearchState(free, cost, inner, state.first, state.digest, state.done + 1, ended)


def _descend(problem: Problem, optimizer: "optax.GradientTransformation", search: SearchState) -> SearchState:
    """One update of first order; the gradient goes backwards, so many parameters cost no more than one."""
    import optax

    at, state = search.inner
    cost, slope = jax.value_and_grad(problem.cost)(at)
    ok = jnp.isfinite(cost) & jnp.all(jnp.isfinite(slope))
    moves, state = optimizer.update(jnp.where(ok, slope, 0), state, at)
    better = ok & (cost < search.cost)
    free = jnp.where(better, at, search.free)
    inner = optax.apply_updates(at, moves), state
    cost = jnp.where(better, cost, search.cost)
    return SearchState(free, cost, inner, search.first, search.digest, search.done + 1, search.ended)


@eqx.filter_jit
def look(problem: Problem, free: Array) -> tuple[Array, Array]:
    """Residuals and Jacobian at a point, compiled."""
    return with_jacobian(problem, free)


def built_model(theta_to_model: Callable, theta: Any) -> Model:
    """Only the model of what theta_to_model returns."""
    built = theta_to_model(theta)
    return built[0] if isinstance(built, tuple) else built
