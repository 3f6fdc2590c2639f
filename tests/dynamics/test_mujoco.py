"""MuJoCo as outside oracle: accelerations of the same robots, from one description."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import backflip as bf

mujoco = pytest.importorskip("mujoco")

DT = 1e-6
"""[s] so short that the mean acceleration over a step is the acceleration"""
G = (0.3, -0.2, -9.81)
FLOATING = ("free", "hinge", "hinge")
FIXED = ("slider", "ball", "universal")


def describe(kinds) -> list[dict]:
    """A chain of links with anchors, axes, centres of mass, masses and inertias that agree in nothing."""
    random = np.random.default_rng(len(kinds[0]))
    links = []
    for i, kind in enumerate(kinds):
        turned = Rotation.from_rotvec(random.normal(size=3)).as_matrix()
        z, x, _ = np.linalg.qr(random.normal(size=(3, 3)))[0]
        anchor = np.array([0.5 * i, 0.1 * i, -0.2 * i])
        links.append(
            {
                "kind": kind,
                "anchor": anchor,
                "axes": {"hinge": [z], "slider": [z], "universal": [z, x]}.get(kind, []),
                "com": anchor + random.normal(size=3) * 0.2,
                "mass": random.uniform(0.5, 2),
                "inertia": turned @ np.diag(random.uniform(0.1, 0.15, 3)) @ turned.T,
                "stiffness": random.uniform(1, 5),
                "damping": random.uniform(0.1, 1),
            }
        )
    return links


def words(numbers) -> str:
    return " ".join(f"{x:.17g}" for x in numbers)


def to_mujoco(links) -> "mujoco.MjModel":
    xml, before = "", np.zeros(3)
    for link in links:
        I = link["inertia"]
        full = (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
        spring = f'stiffness="{link["stiffness"]:.17g}" damping="{link["damping"]:.17g}"'
        joints = {"free": "<freejoint/>", "ball": '<joint type="ball"/>'}.get(link["kind"], "")
        mujoco_kind = "slide" if link["kind"] == "slider" else "hinge"
        for axis in link["axes"]:
            joints += f'<joint type="{mujoco_kind}" axis="{words(axis)}" {spring}/>'
        xml += f'<body pos="{words(link["anchor"] - before)}">{joints}'
        xml += f'<inertial pos="{words(link["com"] - link["anchor"])}" mass="{link["mass"]:.17g}" '
        xml += f'fullinertia="{words(full)}"/>'
        before = link["anchor"]
    xml += "</body>" * len(links)
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><option gravity="{words(G)}"/><worldbody>{xml}</worldbody></mujoco>'
    )


def to_backflip(links) -> bf.Model:
    b = bf.Builder(gravity=G)
    above = "world"
    for i, link in enumerate(links):
        name, kind, count = f"link {i}", link["kind"], len(link["axes"])
        b.add_body(name, mass=link["mass"], inertia=link["inertia"], position=link["com"])
        ends, place = (f"joint {i}", above, name), {"position": link["anchor"]}
        spring = {what: (link[what],) * count for what in ("stiffness", "damping")}
        if kind == "universal":
            b.add_universal(*ends, **place, axes=tuple(link["axes"]), **spring)
        elif kind == "ball":
            b.add_ball_joint(*ends, **place)
        elif kind != "free":
            one = {what: values[0] for what, values in spring.items()}
            getattr(b, f"add_{kind}")(*ends, **place, axis=link["axes"][0], **one)
        for axis in range(count):
            b.add_motor(f"joint {i}", axis=axis, name=f"motor {i} {axis}")
        above = name
    return b.build()


def twists(model, data) -> tuple[np.ndarray, np.ndarray]:
    """Velocities of the centres of mass and spins (n, 3), in W."""
    v, w = [], []
    for body in range(1, model.nbody):
        J_p, J_r = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jacBodyCom(model, data, J_p, J_r, body)
        v.append(J_p @ data.qvel)
        w.append(J_r @ data.qvel)
    return np.array(v), np.array(w)


def accelerations(model, data) -> tuple[np.ndarray, np.ndarray]:
    """Of the centres of mass and spins (n, 3), by central differences along MuJoCo's own qacc."""
    h, moved = 1e-6, mujoco.MjData(model)
    ends = []
    for t in (h, -h):
        moved.qpos[:], moved.qvel[:] = data.qpos, data.qvel + t * data.qacc
        mujoco.mj_integratePos(model, moved.qpos, data.qvel + t / 2 * data.qacc, t)
        mujoco.mj_kinematics(model, moved)
        mujoco.mj_comPos(model, moved)
        ends.append(twists(model, moved))
    (v1, w1), (v0, w0) = ends
    return (v1 - v0) / (2 * h), (w1 - w0) / (2 * h)


@pytest.mark.parametrize("kinds", [FLOATING, FIXED], ids="-".join)
def test_a_robot_in_any_pose_accelerates_as_in_mujoco(law, kinds):
    links = describe(kinds)
    theirs, ours = to_mujoco(links), to_backflip(links)
    data, random = mujoco.MjData(theirs), np.random.default_rng(5)
    mujoco.mj_integratePos(theirs, data.qpos, random.normal(size=theirs.nv), 0.7)
    data.qvel[:] = random.normal(size=theirs.nv) * 2
    u = random.normal(size=ours.controls)
    one_axis = (int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE))
    data.qfrc_applied[np.isin(theirs.jnt_type[theirs.dof_jntid], one_axis)] = u
    mujoco.mj_forward(theirs, data)

    v, w = twists(theirs, data)
    state = eqx.tree_at(
        lambda s: (s.p_WB, s.R_WB, s.v_WB, s.w_WB),
        bf.rest(ours),
        tuple(jnp.asarray(x) for x in (data.xipos[1:], data.xmat[1:].reshape(-1, 3, 3), v, w)),
    )
    assert jax.jit(bf.joint_error)(ours, state).max() < 1e-12
    after = bf.step(bf.Scheme(DT), ours, state, jnp.asarray(u))
    a, dw = accelerations(theirs, data)
    for ours_of_it, theirs_of_it in ((after.a_WB, a), (after.dw_WB, dw)):
        error = np.abs(ours_of_it - theirs_of_it).max() / np.abs(theirs_of_it).max()
        law("accelerations of the same robot in MuJoCo, relative", 1e-4, error)
