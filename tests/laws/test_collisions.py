"""Collisions: both momenta stay to rounding, whatever hits whatever, wherever in the step."""

from itertools import combinations_with_replacement

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.scenes import DEFAULT, SOLVERS, both_solvers

import backflip as bf
from backflip.math import rotation_about

STARTS = 32
"""random ones for every scene"""
SPEED, AWAY = 2.0, 0.3
"""[m/s] at which two robots approach each other, each, and [m] a lever arm: what momenta are measured by"""
TETRAHEDRON = 0.12 * np.array([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)])
SHAPES = {
    "sphere": bf.Sphere(0.12),
    "capsule": bf.Capsule(0.08, 0.2),
    "box": bf.Box((0.3, 0.2, 0.1)),
    "cylinder": bf.Cylinder(0.1, 0.2),
    "hull": bf.Hull(TETRAHEDRON),
}
SURFACE = {"friction": 0.5, "restitution": 0.4}
JOINTS = {
    "fixed": lambda b, *ends, at: b.add_fixed(*ends, position=at),
    "hinge": lambda b, *ends, at: b.add_hinge(
        *ends, position=at, axis=(0.3, 0.2, 1), stiffness=2.0, damping=0.05, limits=(-0.7, 0.7)
    ),
    "slider": lambda b, *ends, at: b.add_slider(
        *ends, position=at, axis=(0.2, 1, 0), stiffness=50.0, damping=0.2, limits=(-0.05, 0.05)
    ),
    "universal": lambda b, *ends, at: b.add_universal(
        *ends, position=at, axes=((1, 0, 0), (0, 0, 1)), stiffness=(3.0, 1.0)
    ),
    "ball": lambda b, *ends, at: b.add_ball_joint(*ends, position=at, damping=0.02),
}


def two_solids(kinds):
    b = bf.Builder(gravity=(0, 0, 0))
    for i, kind in enumerate(kinds):
        b.add_body(f"{kind} {i}", SHAPES[kind], mass=1.0 + 2 * i, position=(i, 0, 0), **SURFACE)
    return b.build()


def two_robots(*robots):
    """Each a trunk with a limb: the kind of the joint, and two shapes."""
    b = bf.Builder(gravity=(0, 0, 0))
    for side, (joint, *shapes) in enumerate(robots):
        for shape, mass, y in zip(shapes, (2.0, 0.7), (0, 0.3), strict=True):
            place = (2 * side, y, y / 5)
            b.add_body(f"{side}{y}", SHAPES[shape], mass=mass, position=place, group=str(side), **SURFACE)
        JOINTS[joint](b, f"joint {side}", f"{side}0", f"{side}0.3", at=(2 * side, 0.15, 0))
    return b.build()


def thrown(model, seed):
    """Both halves of the bodies fly towards each other, anyhow turned and turning, each as one."""
    random, rest = np.random.default_rng(seed), jax.tree.map(np.asarray, bf.rest(model))
    half, p, R, v, w = len(rest.p_WB) // 2, [], [], [], []
    for side, own in ((-1, slice(None, half)), (1, slice(half, None))):
        turn = np.asarray(rotation_about(jnp.asarray(random.normal(size=3))))
        arms = (rest.p_WB[own] - rest.p_WB[own][0]) @ turn.T
        spin = 2 * random.normal(size=3)
        p.append(np.array([side * random.uniform(0.7, 0.8), *random.uniform(-0.05, 0.05, 2)]) + arms)
        R.append(turn @ rest.R_WB[own])
        v.append(np.array([-SPEED * side, 0, 0]) + np.cross(spin, arms))
        w.append(np.broadcast_to(spin, (half, 3)))
    parts = [np.concatenate(x) for x in (p, R, v, w)]
    return eqx.tree_at(lambda s: (s.p_WB, s.R_WB, s.v_WB, s.w_WB), rest, parts)


def check_momenta(law, name, model, solver):
    starts = jax.tree.map(lambda *x: jnp.stack(x), *(thrown(model, seed) for seed in range(STARTS)))
    scheme = bf.Scheme(0.01, SOLVERS[solver])

    def changes(start):
        states = bf.rollout(scheme, model, start, None, steps=60).state
        momenta = bf.momentum, bf.angular_momentum
        drifts = [jnp.abs(jax.vmap(lambda s, f=f: f(model, s))(states) - f(model, start)) for f in momenta]
        half = start.v_WB.shape[0] // 2
        return [x.max() for x in drifts], jnp.abs(states.v_WB[-1] - start.v_WB)[:half].max()

    (linear, angular), felt = jax.jit(jax.vmap(changes))(starts)
    assert np.mean(felt > 0.3) > 0.5, "most of them hit"
    scale = float(bf.total_mass(model)) * SPEED
    law(f"momentum of {name} that collide", 1e-9, linear.max() / scale, "", solver)
    law(f"angular momentum of {name} that collide", 1e-9, angular.max() / scale / AWAY, "", solver)


PAIRS = list(combinations_with_replacement(SHAPES, 2))
QUICK = [("sphere", "capsule"), ("box", "box"), ("cylinder", "hull")]
"""All shapes, in few pairs."""
OTHERS = [
    *(pytest.param(pair, DEFAULT, marks=pytest.mark.slow) for pair in PAIRS if pair not in QUICK),
    *(pytest.param(pair, solver, marks=pytest.mark.slow) for pair in QUICK for solver in list(SOLVERS)[1:]),
]


@pytest.mark.parametrize(("pair", "solver"), [*((pair, DEFAULT) for pair in QUICK), *OTHERS])
def test_free_solids_keep_their_momenta_when_they_collide(law, pair, solver):
    check_momenta(law, "two free solids", two_solids(pair), solver)


@pytest.mark.slow
@both_solvers
def test_articulated_robots_of_spheres_keep_their_momenta_when_they_collide(law, solver):
    model = two_robots(("hinge", "sphere", "sphere"), ("ball", "sphere", "sphere"))
    check_momenta(law, "two articulated robots of spheres", model, solver)


@pytest.mark.slow
@both_solvers
def test_articulated_robots_of_solids_keep_their_momenta_when_they_collide(law, solver):
    model = two_robots(("universal", "box", "capsule"), ("slider", "capsule", "box"))
    check_momenta(law, "two articulated robots of solids", model, solver)


@pytest.mark.slow
def test_articulated_robots_of_cylinders_and_hulls_keep_their_momenta_when_they_collide(law):
    model = two_robots(("fixed", "cylinder", "box"), ("hinge", "box", "hull"))
    check_momenta(law, "two articulated robots of solids", model, DEFAULT)
