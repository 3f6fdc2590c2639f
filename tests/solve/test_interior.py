"""The interior-point solver: against sweeps, published problems, differences, and in degenerate cases."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solve.problems import HAPPENS, Floats, named_problem, random_problem, residual, solve, stack

from backflip.solve import PGS, Cone, Implicit, InteriorPoint, Newton, Pyramid, Unrolled

FRICTIONS = pytest.mark.parametrize("friction", [Cone(), Pyramid()], ids=["cone", "pyramid"])


def moved(x: Floats, impulse):
    """What impulses do to the velocities of rows."""
    return x.factor @ (impulse @ x.factor) + x.softness * impulse


@FRICTIONS
def test_both_solvers_find_the_same_impulses_in_1000_random_problems(friction):
    problems = stack([random_problem(seed) for seed in range(1000)])

    @jax.jit
    @jax.vmap
    def compare(x):
        newton, sweeps = (solve(s, x) for s in (InteriorPoint(friction=friction), PGS(200, friction)))
        size, speed = jnp.max(jnp.abs(sweeps)), jnp.max(jnp.abs(x.velocity))
        return (
            jnp.max(jnp.abs(newton - sweeps)) / size,
            jnp.max(jnp.abs(moved(x, newton - sweeps))) / speed,
            residual(InteriorPoint(friction=friction), x, newton) / speed,
        )

    impulses, velocities, missing = map(np.asarray, compare(problems))
    assert missing.max() < 1e-10
    assert impulses.max() < 1e-6
    assert velocities.max() < 1e-8


def check_named(impulses):
    """Whether what problems are named after happens."""
    found = dict(zip(HAPPENS, impulses, strict=False))
    tangents = {name: np.linalg.norm(x[4:]) - 0.4 * x[3] for name, x in found.items()}
    assert abs(tangents["sliding"]) < 1e-12 and found["sliding"][3] > 0.1
    assert tangents["sticking"] < -0.01
    assert not found["separating"][3:].any()
    assert abs(found["loop"][0]) > 1
    assert found["servo saturated"][2] == -0.3
    assert found["at the limit"][1] > 0.1


def directions(x: Floats) -> Floats:
    """For every float field, a direction (6, ...) in which it alone changes."""
    random = np.random.default_rng(5)
    fields = []
    for i, field in enumerate(x):
        away = np.zeros((len(x), *field.shape))
        away[i] = random.normal(size=field.shape)
        fields.append(jnp.where(jnp.isfinite(field), away, 0))
    return Floats(*fields)


SMOOTH_PYRAMID = InteriorPoint(20, Pyramid(), smoothness=1e-3)
SOLVERS = {
    "cone": (InteriorPoint(), Newton()),
    "pyramid": (InteriorPoint(friction=Pyramid()),),
    "smooth": (InteriorPoint(20, smoothness=1e-3),),
    "smooth pyramid": (SMOOTH_PYRAMID, PGS(1, Pyramid(), gradient=Implicit(smoothness=1e-3))),
    "sweeps": (PGS(200, gradient=Implicit()),),
}
"""Solvers with one and the same gradient; the first is the one that finds what it is the gradient of."""


@pytest.mark.parametrize("solver", SOLVERS)
def test_implicit_gradients_agree_with_differences(solver):
    # without friction it is one-sided: μ cannot be less than 0
    names = [name for name in HAPPENS if name != "without friction"]
    problems = stack([named_problem(name) for name in names] + [random_problem(s, 1, 9) for s in range(10)])
    away = jax.vmap(directions)(problems)
    one, *others = (jax.jit(jax.vmap(lambda x, s=s: solve(s, x))) for s in SOLVERS[solver])
    batch = jax.tree.map(lambda x: jnp.repeat(x, 6, 0), problems)
    ways = jax.tree.map(lambda d: d.reshape(-1, *d.shape[2:]), away)

    def at(part):
        return one(jax.tree.map(lambda x, d: x + part * d, batch, ways))

    if solver == "cone":
        check_named(np.asarray(at(0.0))[::6])
    h = 1e-5
    differences = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    weights = jnp.asarray(np.random.default_rng(0).normal(size=differences.shape))
    size = np.abs(np.asarray(differences)).reshape(len(problems.velocity), -1).max(-1).repeat(6)
    for each in (one, *others):
        pulled = jax.vjp(each, batch)[1](weights)[0]
        found = sum(
            np.asarray(d * g).reshape(len(weights), -1).sum(-1) for d, g in zip(ways, pulled, strict=True)
        )
        error = np.abs(found - np.sum(weights * differences, -1)) / size
        assert error.max() <= 1e-6, (divmod(error.argmax(), 6), error.max())


CORNERS = np.array([(1, 1), (1, -1), (-1, -1), (-1, 1)])


def slab(x) -> Floats:
    """A slab on four corners, mass and inertia 1, from x (12,): velocity, spin, half size, middle, μ.

    Its four normals move it in three ways only.
    """
    half, middle, mu = x[6:9], x[9:11], x[11]
    arm = jnp.concatenate([middle + CORNERS * half[:2], jnp.broadcast_to(-half[2], (4, 1))], -1)
    axes = jnp.asarray(np.eye(3)[[2, 0, 1]])
    turns = jnp.cross(arm[:, None], axes).reshape(12, 3)
    factor = jnp.concatenate([jnp.tile(axes, (4, 1)), turns], -1)
    zero = jnp.zeros(12)
    return Floats(factor, factor @ x[:6], zero, zero[:0], zero[:0], jnp.broadcast_to(mu, (1, 4)))


@FRICTIONS
def test_contacts_that_leave_their_solution_open_have_the_gradient_of_the_one_found(friction):
    """A slab that slides and turns may rest on either diagonal, and friction turns it differently."""
    x = jnp.array([3.0, 1.0, -0.1, 0.02, -0.01, 0.9, 1.0, 0.7, 0.2, 0.05, -0.03, 0.5])

    def after(x):
        return x[:6] + solve(InteriorPoint(friction=friction), slab(x)) @ slab(x).factor

    slope = jax.jit(jax.jacrev(after))(x).T
    h, away, value = 1e-3, jnp.eye(12), jax.jit(jax.vmap(after))
    far, near = ((value(x + k * h * away) - value(x - k * h * away)) / (2 * k * h) for k in (2, 1))
    differences = (4 * near - far) / 3
    np.testing.assert_allclose(slope, differences, rtol=0, atol=1e-6 * np.abs(differences).max())


@pytest.mark.slow
def test_unrolled_gradients_agree_with_implicit_ones():
    x = stack([named_problem(name) for name in ("sliding", "sticking", "servo saturated")])

    away = jax.tree.map(lambda d: jnp.sum(d, 1), jax.vmap(directions)(x))

    @jax.jit
    def tangents():
        solvers = (InteriorPoint(gradient=gradient) for gradient in (Unrolled(), Implicit()))
        return [jax.jvp(jax.vmap(lambda x, s=s: solve(s, x)), (x,), (away,))[1] for s in solvers]

    unrolled, implicit = map(np.asarray, tangents())
    np.testing.assert_allclose(unrolled, implicit, rtol=0, atol=1e-8 * np.abs(implicit).max())


def test_a_gradient_may_be_smoother_than_its_solution():
    problem, kappa = named_problem("separating"), 1e-4
    solver = InteriorPoint(gradient=Implicit(smoothness=kappa))
    normal = jax.value_and_grad(lambda v: solve(solver, problem._replace(velocity=v))[3])
    value, slope = jax.jit(normal)(problem.velocity)
    # a contact that parts is felt from afar: λ w = κ, so dλ/dw is about −κ / w²
    assert value == 0
    np.testing.assert_allclose(slope[3], -kappa / 2**2, rtol=0.3)


def test_friction_pulls_less_where_mu_is_less():
    # one contact that slides along x: λ_t = −μ λ_n, so dλ_t/dμ = −λ_n; K for Kᵀ would give it the wrong sign
    contact = Floats(
        jnp.eye(3), jnp.array([-1.0, 5.0, 0.0]), jnp.zeros(3), jnp.zeros(0), jnp.zeros(0), jnp.array([[0.4]])
    )

    def tangent(mu):
        return solve(InteriorPoint(friction=Pyramid()), contact._replace(friction=mu))[1]

    np.testing.assert_allclose(jax.jit(jax.grad(tangent))(contact.friction), -1.0, rtol=1e-9)


# published problems


def test_fathis_problem(n=20):
    """Fathi (1979): M = L Lᵀ, L of Murty (1978) with 1 on and 2 below the diagonal; hard for pivoting."""
    L = jnp.asarray(np.eye(n) + 2 * np.tri(n, k=-1))
    no = jnp.zeros(0).reshape(0, 1)
    problem = Floats(L, -jnp.ones(n), jnp.zeros(n), jnp.zeros(n), jnp.full(n, jnp.inf), no)
    found = np.asarray(jax.jit(lambda: solve(InteriorPoint(), problem))())
    np.testing.assert_allclose(found, np.eye(n)[0], atol=1e-9)


def test_a_quadratic_program_of_a_textbook():
    """Nocedal and Wright, Numerical Optimization (2006), example 16.4: x = (1.4, 1.7)."""
    G = np.array([[1, -2], [-1, -2], [-1, 2], [1, 0], [0, 1]], float)
    h, free = np.array([-2, -6, -2, 0, 0.0]), np.array([1, 2.5])
    no = jnp.zeros(0).reshape(0, 1)
    bounds = jnp.zeros(5), jnp.full(5, jnp.inf)
    problem = Floats(jnp.asarray(G / np.sqrt(2)), jnp.asarray(G @ free - h), jnp.zeros(5), *bounds, no)
    found = np.asarray(jax.jit(lambda: solve(InteriorPoint(), problem))())
    np.testing.assert_allclose(free + found @ G / 2, [1.4, 1.7], atol=1e-9)
    np.testing.assert_allclose(found, [0.8, 0, 0, 0, 0], atol=1e-9)


# degenerate problems


def degenerate(dtype) -> Floats:
    """Redundant contacts and joints, nothing to do, no friction, no room, 1e4 : 1; plain ones too."""
    plain = random_problem(3)
    twice = plain._replace(
        factor=plain.factor.at[6:9].set(plain.factor[3:6]),
        velocity=plain.velocity.at[6:9].set(plain.velocity[3:6]),
        softness=0 * plain.softness,
    )
    still = twice._replace(velocity=0 * twice.velocity)
    problems = [
        twice,
        still,
        twice._replace(friction=0 * twice.friction),
        still._replace(friction=0 * twice.friction),
        twice._replace(velocity=jnp.abs(twice.velocity)),
        twice._replace(lower=twice.lower.at[2].set(0), upper=twice.upper.at[2].set(0)),
        twice._replace(factor=twice.factor.at[:3].multiply(100)),
        twice._replace(factor=0 * twice.factor),
        twice._replace(velocity=1e-4 * twice.velocity),
        twice._replace(velocity=1e3 * twice.velocity),
        twice._replace(
            factor=twice.factor.at[1].set(twice.factor[0]),
            velocity=twice.velocity.at[1].set(twice.velocity[0]),
        ),
    ]
    problems += [random_problem(seed) for seed in range(60)]
    return jax.tree.map(lambda x: x.astype(dtype), stack(problems))


@pytest.mark.parametrize(
    ("dtype", "solver"),
    [
        (jnp.float32, InteriorPoint()),
        (jnp.float32, Newton()),
        (jnp.float64, Newton()),
        (jnp.float64, InteriorPoint(friction=Pyramid())),
        (jnp.float32, InteriorPoint(smoothness=1e-3)),
    ],
)
def test_degenerate_problems_are_solved_and_have_finite_gradients(dtype, solver):
    x = degenerate(dtype)

    @jax.jit
    @jax.vmap
    def look(x):
        found, pull = jax.vjp(lambda x: solve(solver, x), x)
        finite = jnp.array([jnp.all(jnp.isfinite(g)) for g in pull(jnp.ones_like(found))[0]])
        return found, jnp.all(finite), residual(solver, x, found)

    found, finite, missing = look(x)
    assert found.dtype == dtype and np.isfinite(found).all() and finite.all()
    speed = np.maximum(np.abs(x.velocity).max(-1), 1e-3)
    bar = 1e-8 if dtype == jnp.float64 else 1e-3
    smooth = getattr(solver, "smoothness", 0)
    assert smooth or (missing / speed < bar).all(), missing / speed


def test_a_foot_that_barely_slides_is_solved_and_has_the_gradient_of_its_differences():
    # step 46 of the trotting robot of the gradient matrix: a foot slides by 1e-6 m/s, which the path, at its
    # end, does not tell from sticking; and as soft rows slide at another speed, it turns otherwise
    with np.load(Path(__file__).with_name("barely_sliding.npz")) as recorded:
        x = Floats(**{name: jnp.asarray(value) for name, value in recorded.items()})
    solver, push = InteriorPoint(), x.factor @ np.random.default_rng(0).normal(size=x.factor.shape[1])

    def pushed(part):
        y = x._replace(velocity=x.velocity + part * push)
        found = solve(solver, y)
        return found @ x.factor, residual(solver, y, found)

    (_, missing), (slope, _) = jax.jit(lambda: jax.jvp(pushed, (0.0,), (1.0,)))()
    h = 1e-6
    (ahead, behind), _ = jax.jit(jax.vmap(pushed))(jnp.array([h, -h]))
    assert missing < 1e-12
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * h), atol=1e-6 * np.abs(slope).max())


def floats(factor, velocity, bounds, mu) -> Floats:
    """A problem in float32."""
    fields = factor, velocity, np.zeros(len(velocity)), *bounds, mu
    return Floats(*(jnp.asarray(np.array(x, np.float32)) for x in fields))


def test_less_smoothness_than_float32_reaches_is_taken_for_what_it_reaches():
    solver, w = InteriorPoint(20, smoothness=1e-6), 0.1
    x = floats(np.eye(2), [-5.0, w], ([0.0, 0.0], [np.inf, np.inf]), np.zeros((0, 1)))
    slope = jax.grad(lambda v: solve(solver, x._replace(velocity=v))[1])(x.velocity)[1]
    kappa = 25 * float(np.finfo(np.float32).eps) ** 0.75
    impulse = (np.sqrt(w * w + 4 * kappa) - w) / 2
    assert float(slope) == pytest.approx(-impulse / (2 * impulse + w), rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("mass", [1.0, 1e3])
def test_a_contact_that_sticks_in_a_plane_does_not_feel_the_unit_of_mass(mass):
    factor = np.diag([1, 1, 0]) / np.sqrt(mass)
    x = floats(factor, [-1.0, 0.1, 0.0], (np.zeros(0), np.zeros(0)), [[0.5]])
    slope = jax.grad(lambda v: solve(InteriorPoint(), x._replace(velocity=v))[1])(x.velocity)[1]
    assert float(slope) == pytest.approx(-mass, rel=1e-4)
