"""Projected Gauss-Seidel against quadratic programs, and Coulomb's law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, nnls

from backflip.solve import PGS, Cone, Delassus, Layout, Pyramid, Rows

quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def spd(random: np.random.Generator, n: int) -> np.ndarray:
    G = random.normal(size=(n, n))
    return G @ G.T / n + 0.5 * np.eye(n)


def rows(target, lower=(), upper=(), friction=(), softness=None, initial=None, min_diagonal=0.0) -> Rows:
    r = len(target)
    zero = jnp.zeros(r)
    return Rows(
        target=jnp.asarray(target),
        lower=jnp.asarray(lower, float),
        upper=jnp.asarray(upper, float),
        softness=zero if softness is None else jnp.asarray(softness),
        friction=jnp.concatenate([jnp.ravel(jnp.asarray(mu, float)) for mu in friction] or [jnp.zeros(0)]),
        min_diagonal=zero + min_diagonal,
        initial_impulse=zero if initial is None else jnp.asarray(initial),
        layout=Layout((("scalar", len(lower)),), tuple(jnp.shape(mu) for mu in friction)),
    )


@jax.jit
def solve(solver, problem, A, velocity):
    w, V = jnp.linalg.eigh(A)
    return solver.solve(problem, Delassus(V * jnp.sqrt(jnp.maximum(w, 0))), velocity)


@quick
@given(seeds)
def test_one_sided_rows_solve_the_nonnegative_least_squares(seed):
    random = np.random.default_rng(seed)
    A, b = spd(random, 5), random.normal(size=5)
    L = np.linalg.cholesky(A)
    exact, _ = nnls(L.T, -np.linalg.solve(L, b))
    found = solve(PGS(sweeps=500), rows(np.zeros(5), np.zeros(5), np.full(5, np.inf)), A, b)
    np.testing.assert_allclose(found, exact, atol=1e-7)


@quick
@given(seeds)
def test_clamped_and_soft_rows_solve_the_bounded_least_squares(seed):
    random = np.random.default_rng(seed)
    A, b, target, soft = spd(random, 5), *random.normal(size=(2, 5)), random.uniform(0, 1, 5)
    lower, upper = -random.uniform(0.01, 1, 5), random.uniform(0.01, 1, 5)
    L = np.linalg.cholesky(A + np.diag(soft))
    exact = lsq_linear(L.T, -np.linalg.solve(L, b - target), (lower, upper), tol=1e-14).x
    found = solve(PGS(sweeps=500), rows(target, lower, upper, softness=soft), A, b)
    np.testing.assert_allclose(found, exact, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 1), (1, 3)], ids=["apart", "one patch"])
@quick
@given(seed=seeds)
def test_slippery_contacts_solve_the_nonnegative_least_squares_of_their_normals(shape, seed):
    random = np.random.default_rng(seed)
    A, b = spd(random, 9), random.normal(size=9)
    normals = np.arange(0, 9, 3)
    L = np.linalg.cholesky(A[np.ix_(normals, normals)])
    exact, _ = nnls(L.T, -np.linalg.solve(L, b[normals]))
    found = solve(PGS(sweeps=500), rows(np.zeros(9), friction=[np.zeros(shape)]), A, b)
    np.testing.assert_allclose(found[normals], exact, atol=1e-7)
    assert not np.delete(found, normals).any()


@pytest.mark.parametrize("shape", [(3, 1), (1, 3)], ids=["apart", "one patch"])
@pytest.mark.parametrize("friction", [Cone(), Pyramid()], ids=["cone", "pyramid"])
@quick
@given(seed=seeds, sweeps=st.sampled_from([1, 3, 500]))
def test_friction_never_leaves_its_bound(shape, friction, seed, sweeps):
    random = np.random.default_rng(seed)
    A, b, mu = spd(random, 9), random.normal(size=9), random.uniform(0, 1, 3)
    found = solve(PGS(sweeps, friction), rows(np.zeros(9), friction=[mu.reshape(shape)]), A, b).reshape(3, 3)
    normal, tangent = np.asarray(found[:, 0]), np.asarray(found[:, 1:])
    size = np.abs(tangent).max(-1) if isinstance(friction, Pyramid) else np.linalg.norm(tangent, axis=-1)
    assert (normal >= 0).all() and (size <= mu * normal + 1e-12).all()


@pytest.mark.parametrize("shape", [(3, 1), (1, 3)], ids=["apart", "one patch"])
@pytest.mark.parametrize("friction", [Cone(), Pyramid()], ids=["cone", "pyramid"])
@quick
@given(seed=seeds)
def test_contacts_part_stick_or_slide_against_their_friction(shape, friction, seed):
    random = np.random.default_rng(seed)
    A, b, mu = spd(random, 9), random.normal(size=9), random.uniform(0, 0.5, 3)
    found = np.asarray(solve(PGS(500, friction), rows(np.zeros(9), friction=[mu.reshape(shape)]), A, b))
    leaving, sliding = (A @ found + b).reshape(3, 3)[:, 0], (A @ found + b).reshape(3, 3)[:, 1:]
    normal, tangent = found.reshape(3, 3)[:, 0], found.reshape(3, 3)[:, 1:]
    assert (leaving > -1e-6).all() and np.abs(normal * leaving).max() < 1e-6
    bound = (mu * normal)[:, None]
    if isinstance(friction, Pyramid):
        expected = np.clip(tangent - sliding, -bound, bound)
    else:
        wanted = tangent - sliding
        length = np.linalg.norm(wanted, axis=-1, keepdims=True)
        expected = wanted * np.minimum(1, bound / np.maximum(length, 1e-300))
    # a fixed point of the projection: sticks inside the bound, slides against friction on it
    np.testing.assert_allclose(tangent, expected, atol=1e-6)


def test_a_cone_pushes_alike_in_every_direction_and_a_pyramid_does_not():
    A, mu = np.eye(3), [0.5]
    for angle in np.linspace(0, np.pi / 2, 7):
        b = np.array([-1.0, 9 * np.cos(angle), 9 * np.sin(angle)])
        contact = rows(np.zeros(3), friction=[np.array([mu])])
        cone, pyramid = (np.asarray(solve(PGS(5, f), contact, A, b))[1:] for f in (Cone(), Pyramid()))
        np.testing.assert_allclose(cone, -0.5 * b[1:] / 9, atol=1e-12)
        np.testing.assert_allclose(pyramid, np.clip(-b[1:], -0.5, 0.5), atol=1e-12)


def test_a_contact_in_a_plane_has_friction():
    # the second tangent moves nothing: out of a plane
    factor, b = np.diag([1.0, 1.0, 0.0]), jnp.array([-1.0, 5.0, 0.0])
    contact = rows(np.zeros(3), friction=[np.array([[0.5]])], min_diagonal=1e-9)
    for friction in (Cone(), Pyramid()):
        found = PGS(5, friction).solve(contact, Delassus(jnp.asarray(factor)), b)
        np.testing.assert_allclose(found, [1, -0.5, 0], atol=1e-12)


def test_a_warm_start_at_the_solution_stays_there_and_helps_a_single_sweep():
    random = np.random.default_rng(3)
    A, b = spd(random, 6), random.normal(size=6)
    bounds = np.zeros(6), np.full(6, np.inf)
    exact = solve(PGS(sweeps=500), rows(np.zeros(6), *bounds), A, b)
    begun = rows(np.zeros(6), *bounds, initial=exact)
    warm, cold = (solve(PGS(sweeps=1, warm_start=part), begun, A, b) for part in (1.0, 0.0))
    np.testing.assert_allclose(warm, exact, atol=1e-12)
    assert np.abs(cold - exact).max() > 1e-3


def test_no_rows_need_no_impulse():
    assert solve(PGS(), rows(np.zeros(0)), jnp.zeros((0, 0)), jnp.zeros(0)).shape == (0,)
