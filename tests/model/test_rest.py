"""The start state: forward kinematics from whatever root, in whatever order joints were said."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf

joint_error = jax.jit(bf.joint_error)
AXES = {"a": (0, 1, 0), "b": (1, 0.5, 0), "c": (0, 0.3, 1)}


def mixed(order=(0, 1, 2), flip=(), root="world") -> bf.Model:
    """Hinge, slider and universal in a chain of off-centre bodies, described turned."""
    b = bf.Builder()
    for i, name in enumerate("abc"):
        b.add_body(name, mass=1.0 + i, position=(0.5 * i + 0.3, 0.1 * i, 0), rotation=(0.1, 0.2 * i, -0.3))
        b.add_shape(name, bf.Box((0.2, 0.3, 0.4)), position=(0.05, 0.1, -0.05))
        b.add_sensor(bf.Orientation(name))
    said = (
        ("hinge", "add_hinge", root, "a", {"position": (0, 0, 0.1), "axis": AXES["a"]}),
        ("slider", "add_slider", "a", "b", {"position": (0.5, 0, 0), "axis": AXES["b"]}),
        ("universal", "add_universal", "b", "c", {"position": (1, 0, 0), "axes": (AXES["c"], (1, 0, 0))}),
    )
    if root != "world":
        b.add_body(root, bf.Sphere(0.1), position=(-0.3, 0, 0))
    for i in order:
        name, method, parent, child, how = said[i]
        ends = (child, parent) if name in flip else (parent, child)
        getattr(b, method)(name, *ends, **how)
    b.add_sensor(*(bf.JointAngle(said[i][0]) for i in range(3)))
    return b.build()


SAID = [((0, 1, 2), ()), ((1, 2, 0), ("slider",)), ((2, 1, 0), ("slider", "universal"))]


@pytest.mark.parametrize("order, flip", SAID, ids=str)
def test_angles_go_in_and_come_out_whatever_the_order_and_direction(order, flip):
    model = mixed(order, flip)
    names = ["hinge", "slider", "universal"]
    wanted = {"hinge": [0.7], "slider": [-0.2], "universal": [-0.5, 1.1]}
    q = jnp.concatenate([jnp.array(wanted[names[i]]) for i in order])
    state = bf.rest(model, q)
    np.testing.assert_allclose(joint_error(model, state), 0, atol=1e-14)
    np.testing.assert_allclose(bf.observe(model, state)[27:], [0.7, -0.2, -0.5, 1.1], atol=1e-13)


def test_at_rest_bodies_are_where_they_were_described():
    for root in ("world", "base"):
        model = mixed(root=root)
        state = bf.rest(model)
        np.testing.assert_allclose(joint_error(model, state), 0, atol=1e-14)
        np.testing.assert_allclose(state.R_WB, model.rotation, atol=1e-14)
        origin = state.p_WB[:3] - jnp.einsum("nij,j->ni", state.R_WB[:3], jnp.array([0.05, 0.1, -0.05]))
        np.testing.assert_allclose(origin, model.position[:3], atol=1e-14)


def test_a_changed_length_moves_all_children_and_leaves_joints_closed():
    model = mixed()
    longer = eqx.tree_at(lambda m: m.p_BJ, model, model.p_BJ.at[0].add(jnp.array([0, 0, 0.2])))
    before, after = bf.rest(model), bf.rest(longer)
    moved = after.p_WB - before.p_WB
    shift = -np.asarray(before.R_WB[0])[:, 2] * 0.2
    np.testing.assert_allclose(moved, np.stack([shift] * 3), atol=1e-14)
    np.testing.assert_allclose(joint_error(longer, after), 0, atol=1e-14)


def test_the_end_moves_with_a_hinge_as_axis_cross_arm():
    model = mixed()
    q = jnp.array([0.3, 0.1, 0.2, -0.4])
    slope = jax.jacfwd(lambda q: bf.rest(model, q).p_WB[2])(q)[:, 0]
    arm = bf.rest(model, q).p_WB[2] - jnp.array([0, 0, 0.1])
    np.testing.assert_allclose(slope, np.cross([0, 1, 0], arm), atol=1e-13)


def test_loose_bodies_start_with_their_velocity():
    b = bf.Builder()
    b.add_body("a", bf.Sphere(0.1), velocity=(1, 2, 3), spin=(4, 5, 6))
    state = bf.rest(b.build())
    np.testing.assert_array_equal(state.v_WB[0], [1, 2, 3])
    np.testing.assert_array_equal(state.w_WB[0], [4, 5, 6])
