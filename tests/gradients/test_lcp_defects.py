"""What is wrong in the engine of Belbute-Peres et al. (2018) as published, held against ours.

Solved with F for Fᵀ, so that friction has the wrong sign; z d_zᵀ for z d_xᵀ in eq. (3): here by dx/dμ, and
in `solve/test_interior.py` for every field of a problem. No time of impact, contacts that act before they
touch: here, and by sweeps in `test_closed_forms.py`. Time steps that collapse on a cluster of bodies: ours
are fixed, and a stack of five boxes takes its 60 s in `laws/test_contact.py`. Gradients of 2.4e17 with
respect to masses there: here, and through many contacts in `laws/test_growth.py`. Chains that come apart:
`laws/test_joints.py`. A mass that is only found because updates are one unit long: every other guess in
`experiments/test_identification.py`.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backflip import PGS, Box, Builder, InteriorPoint, Scheme, Sphere, rest, rollout

G, T, DT = 9.81, 0.5, 0.01


@pytest.mark.slow
def test_interior_point_slides_bounces_and_swaps_with_the_gradients_of_closed_forms() -> None:
    builder = Builder(planar=True, gravity=(0, 0, -G))
    builder.add_ground(friction=0.3)
    builder.add_body("box", Box((0.4, 0.4, 0.1)), position=(0, 0, 0.05), group="apart")
    builder.add_body("ball", Sphere(0.1), position=(2, 0, 1), restitution=0.6, group="apart")
    for name, x in (("left", -1.0), ("right", 1.0)):
        builder.add_body(name, Sphere(0.1), position=(x, 0, 5), friction=0, restitution=1.0)
    model = builder.build()

    def ends(x):
        """Where box, ball and left are; x: speed of the box, μ, height of the ball, places and speeds."""
        changed = replace(model, friction=jnp.where(model.friction > 0, x[1], model.friction))
        start = rest(changed)
        p = start.p_WB.at[1, 2].set(x[2]).at[2:, 0].set(x[3:5])
        v = start.v_WB.at[0, 0].set(x[0]).at[2:, 0].set(x[5:])
        last = rollout(Scheme(DT, InteriorPoint()), changed, replace(start, p_WB=p, v_WB=v), steps=50).last
        return jnp.stack([last.p_WB[0, 0], last.p_WB[1, 2], last.p_WB[2, 0]])

    def exact(x):
        fall = jnp.sqrt(2 * (x[2] - 0.1) / G)
        left = T - fall
        return jnp.stack(
            [
                x[0] * T - x[1] * G * T**2 / 2,
                0.1 + 0.6 * G * fall * left - G * left**2 / 2,
                x[4] + x[6] * T - 0.2,
            ]
        )

    x = jnp.array([4.0, 0.3, 0.8, -0.5, 0.4, 2.0, -1.0])
    slopes = jax.jit(jax.jacfwd(ends))(x)
    np.testing.assert_allclose(jax.jit(ends)(x), exact(x), rtol=1e-3)
    wanted = jax.jacfwd(exact)(x)
    np.testing.assert_allclose(slopes[0], wanted[0], atol=1e-8)
    np.testing.assert_allclose(slopes[1], wanted[1], atol=0.01)
    # 1 − (g dt / 3)² of the truth: what closes hardly faster than gravity adds in a step has no instant
    np.testing.assert_allclose(slopes[2], wanted[2], atol=2e-3)


@pytest.mark.parametrize(
    "solver",
    [
        pytest.param(PGS(sweeps=60), id="PGS"),
        pytest.param(InteriorPoint(), id="interior point", marks=pytest.mark.slow),
    ],
)
def test_masses_of_a_cluster_have_the_gradients_that_differences_have(solver) -> None:
    builder = Builder(planar=True, gravity=(0, 0, -G))
    builder.add_ground(friction=0.5)
    places = (-0.212, 0.1), (0.003, 0.1), (0.209, 0.1), (-0.11, 0.293), (0.117, 0.301), (0.013, 0.517)
    for i, (x, z) in enumerate(places):
        builder.add_body(f"ball {i}", Sphere(0.1), position=(x, 0, z), mass=1 + 0.3 * i, friction=0.4)
    model = builder.build()
    scheme = Scheme(DT, solver)

    def spread(scale):
        """How far the pile has flowed apart, with masses scaled; the bodies fly at one another."""
        start = rest(model)
        heavier = replace(model, mass=model.mass * scale)
        start = replace(start, v_WB=-3 * start.p_WB * jnp.array([1.0, 0, 0]))
        return jnp.sum(rollout(scheme, heavier, start, steps=30).last.p_WB[:, 0] ** 2)

    ones, h = jnp.ones(6), 1e-6
    slope = jax.jit(jax.grad(spread))(ones)
    many = jax.jit(jax.vmap(spread))(jnp.concatenate([ones + h * jnp.eye(6), ones - h * jnp.eye(6)]))
    np.testing.assert_allclose(slope, (many[:6] - many[6:]) / (2 * h), rtol=1e-5, atol=1e-7)
    # nothing but masses has a unit of mass: if all are twice as heavy, they move as before
    assert abs(slope.sum()) < 1e-9 < jnp.max(jnp.abs(slope)) < 1
