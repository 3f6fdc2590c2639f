"""One identification as a least-squares problem, and the optimizers that bring it down."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from backflip.dynamics import Scheme
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

    def readings(self, free: Array) -> Array:
        """(runs, samples, channels) what a simulation with these parameters would have observed."""
        built = self.theta_to_model(self.layout.theta(free))
        model, start = built if isinstance(built, tuple) else (built, self.recorded.start)
        steps, every, mean = self.recorded.steps, self.recorded.every, self.recorded.averaged

        def one(start: State | None, controls: Array | None) -> Array:
            begin = rest(model) if start is None else start
            states = rollout(self.scheme, model, begin, controls, steps=steps).state
            taken = jax.tree.map(lambda x: x[every - 1 :: every], states)
            read = jax.vmap(self.sense, (None, 0))(model, taken)
            if not mean:
                return read
            all_along = jax.vmap(self.sense, (None, 0))(model, states)[:, mean]
            return read.at[:, mean].set(all_along.reshape(-1, every, len(mean)).mean(1))

        runs = self.recorded.observed.shape[0]
        axes = (_axis(start), _axis(self.recorded.controls))
        return jax.vmap(one, axes, axis_size=runs)(start, self.recorded.controls)

    def residuals(self, free: Array) -> Array:
        """(m + p,) so that their squares add up to the mean cost of a sample, times scale².

        The last p say how far theta is from what the first guess is trusted to be.
        """
        off = (self.readings(free) - self.recorded.observed) / self.noise
        roots = self.residual_cost.signed_root(jnp.where(self.present > 0, off, 0)).reshape(-1)
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


class Standing(eqx.Module):
    """Where a search stands; a checkpoint is this, written down."""

    free: Array
    """(p,) the best so far"""
    cost: Array
    """of it"""
    inner: Any
    """the optimizer's own state"""


def is_first_order(optimizer: Any) -> bool:
    """Whether it is an optimiser of optax, not a solver of optimistix."""
    import optax

    return isinstance(optimizer, optax.GradientTransformation)


@eqx.filter_jit
def begin(problem: Problem, optimizer: Any, free: Array) -> Standing:
    """Before the first update."""
    unknown = jnp.full((), jnp.inf, free.dtype)
    if is_first_order(optimizer):
        return Standing(free, unknown, (free, optimizer.init(free)))
    fn = residuals_for_solvers(problem)
    out = jax.eval_shape(lambda y: fn(y, None)[0], free)
    inner = optimizer.init(fn, free, None, {}, out, None, frozenset())
    return Standing(free, unknown, inner)


@eqx.filter_jit
def advance(problem: Problem, optimizer: Any, standing: Standing) -> tuple[Standing, Array]:
    """One update: one simulation with its derivative. Also whether the optimizer has come to its end."""
    if is_first_order(optimizer):
        return _descend(problem, optimizer, standing)
    fn = residuals_for_solvers(problem)
    free, inner, _ = optimizer.step(fn, standing.free, None, {}, standing.inner, frozenset())
    done, _ = optimizer.terminate(fn, free, None, {}, inner, frozenset())
    r = inner.f_info.residual
    return Standing(free, jnp.sum(r * r) / problem.scale**2, inner), done


def _descend(
    problem: Problem, optimizer: "optax.GradientTransformation", standing: Standing
) -> tuple[Standing, Array]:
    """One update of first order; the gradient goes backwards, so many parameters cost no more than one."""
    import optax

    at, state = standing.inner
    cost, slope = jax.value_and_grad(problem.cost)(at)
    ok = jnp.isfinite(cost) & jnp.all(jnp.isfinite(slope))
    moves, state = optimizer.update(jnp.where(ok, slope, 0), state, at)
    better = ok & (cost < standing.cost)
    free = jnp.where(better, at, standing.free)
    after = Standing(free, jnp.where(better, cost, standing.cost), (optax.apply_updates(at, moves), state))
    return after, jnp.asarray(False)


@eqx.filter_jit
def look(problem: Problem, free: Array) -> tuple[Array, Array]:
    """Residuals and Jacobian at a point, compiled."""
    return with_jacobian(problem, free)


def built_model(theta_to_model: Callable, theta: Any) -> Model:
    """The model alone of what theta_to_model returns."""
    built = theta_to_model(theta)
    return built[0] if isinstance(built, tuple) else built
