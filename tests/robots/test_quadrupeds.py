"""The two quadrupeds are the robots that MuJoCo is given, stand, and trot in one piece."""

from pathlib import Path

import jax
import numpy as np
import pytest

import backflip as bf
from backflip import robots
from backflip.experiments.bench.job import DT, SWEEPS, trot

mujoco = pytest.importorskip("mujoco")

MJCF = Path(__file__).parents[2] / "benchmarks"
NAMES = ("quadruped", "quadruped17")
SCHEME = bf.Scheme(DT, solver=bf.PGS(sweeps=SWEEPS))


@pytest.fixture(params=NAMES)
def both(request):
    """Our model, and MuJoCo's with its data at rest."""
    theirs = mujoco.MjModel.from_xml_string((MJCF / f"{request.param}.xml").read_text("utf-8"))
    data = mujoco.MjData(theirs)
    mujoco.mj_forward(theirs, data)
    return getattr(robots, request.param)(), theirs, data


def names(theirs, kind, count) -> list[str]:
    return [mujoco.mj_id2name(theirs, kind, i) for i in range(count)]


def test_bodies_weigh_the_same_and_lie_in_the_same_places(both):
    ours, theirs, data = both
    order = [ours.topology.body(b) for b in names(theirs, mujoco.mjtObj.mjOBJ_BODY, theirs.nbody)[1:]]
    assert sorted(order) == list(range(len(ours.topology.bodies)))
    np.testing.assert_allclose(ours.mass[np.array(order)], theirs.body_mass[1:], rtol=1e-6)
    inertia = np.asarray(ours.inertia)[order]
    np.testing.assert_allclose(inertia, [np.diag(i) for i in theirs.body_inertia[1:]], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(bf.rest(ours).p_WB[np.array(order)], data.xipos[1:], atol=1e-7)


def test_joints_have_the_same_ends_anchors_and_axes(both):
    ours, theirs, data = both
    bodies = names(theirs, mujoco.mjtObj.mjOBJ_BODY, theirs.nbody)
    ends = {(ours.topology.bodies[j.a], ours.topology.bodies[j.b]) for j in ours.topology.joints}
    assert ends == {(bodies[p], b) for b, p in zip(bodies, theirs.body_parentid, strict=True) if p > 0}
    start = bf.rest(ours)
    for i, name in enumerate(names(theirs, mujoco.mjtObj.mjOBJ_JOINT, theirs.njnt)):
        if name is None:  # the torso is free
            continue
        j = ours.topology.joint(name)
        a = ours.topology.joints[j].a
        p_WJ = start.p_WB[a] + start.R_WB[a] @ ours.p_AJ[j]
        np.testing.assert_allclose(p_WJ, data.xanchor[i], atol=1e-7)
        np.testing.assert_allclose((start.R_WB[a] @ ours.R_AJ[j])[:, 2], data.xaxis[i], atol=1e-7)
    assert [a.name for a in ours.topology.actuators] == [
        names(theirs, mujoco.mjtObj.mjOBJ_JOINT, theirs.njnt)[j] for j in theirs.actuator_trnid[:, 0]
    ]
    np.testing.assert_allclose(ours.max_torque, theirs.actuator_forcerange[:, 1])


def test_the_same_spheres_touch_the_ground(both):
    ours, theirs, data = both
    data.qpos[2] = 0.0  # so low that all of them are in the ground
    mujoco.mj_forward(theirs, data)
    assert data.ncon == len(ours.topology.pairs) == 8
    shapes = [s.name for s in ours.topology.shapes]
    order = [shapes.index(g) for g in names(theirs, mujoco.mjtObj.mjOBJ_GEOM, theirs.ngeom)[1:]]
    np.testing.assert_allclose(ours.size[np.array(order), 0], theirs.geom_size[1:, 0])
    touching = {shapes[k] for pair in ours.topology.pairs for k in pair}
    assert touching == set(shapes)


def test_quadruped17_has_the_paper_s_bodies_and_constraints():
    facts = robots.quadruped17().topology
    held = {"hinge": 5, "fixed": 6}
    feet = sum("foot" in s.name for s in facts.shapes)
    assert len(facts.bodies) == 17
    assert sum(held[j.kind.name] for j in facts.joints) + 3 * feet == 100


@pytest.mark.parametrize("name", NAMES)
def test_it_stands_still_and_then_trots_in_one_piece(name):
    model = getattr(robots, name)()
    sines = trot(1, 1000)[0]

    @jax.jit
    def play(controls):
        states = bf.rollout(SCHEME, model, bf.rest(model), controls).state
        return states, jax.vmap(lambda s: bf.joint_error(model, s).max())(states).max()

    states, _ = play(np.zeros_like(sines))
    moved = np.abs(states.p_WB[-1] - states.p_WB[-50]).max()
    assert moved < 1e-4 and states.p_WB[-1, 0, 2] > 0.32

    states, drift = play(sines)
    assert drift < 1e-3
    assert states.p_WB[:, 0, 2].min() > 0.3 and states.R_WB[:, 0, 2, 2].min() > 0.95
    assert states.p_WB[-1, 0, 0] > 1.0  # it gets somewhere in 10 s
