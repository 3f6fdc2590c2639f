"""The start state: forward kinematics from whatever root, in whatever order joints were added."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

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
    joints = (
        ("hinge", "add_hinge", root, "a", {"position": (0, 0, 0.1), "axis": AXES["a"]}),
        ("slider", "add_slider", "a", "b", {"position": (0.5, 0, 0), "axis": AXES["b"]}),
        ("universal", "add_universal", "b", "c", {"position": (1, 0, 0), "axes": (AXES["c"], (1, 0, 0))}),
    )
    if root != "world":
        b.add_body(root, bf.Sphere(0.1), position=(-0.3, 0, 0))
    for i in order:
        name, method, parent, child, how = joints[i]
        ends = (child, parent) if name in flip else (parent, child)
        getattr(b, method)(name, *ends, **how)
    b.add_sensor(*(bf.JointAngle(joints[i][0]) for i in range(3)))
    return b.build()


ORDERS = [((0, 1, 2), ()), ((1, 2, 0), ("slider",)), ((2, 1, 0), ("slider", "universal"))]


@pytest.mark.parametrize("order, flip", ORDERS, ids=str)
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


def test_positions_and_velocities_go_in_and_come_out_by_name():
    model = mixed((1, 2, 0), ("slider",), root="base")
    model = bf.replace(model, velocity={"a": (1, 2, 3)}, spin={"a": (0.5, -1, 2)})
    q = {"hinge": 0.7, "slider": -0.2, "universal": (-0.5, 1.1)}
    rate = {"hinge": -2.0, "universal": jnp.array([1.5, 0.4])}
    state = bf.rest(model, q, rate)
    positions, velocities = bf.joint_positions(model, state), bf.joint_velocities(model, state)
    for name, value in q.items():
        np.testing.assert_allclose(positions[name], value, atol=1e-13)
        np.testing.assert_allclose(velocities[name], rate.get(name, 0.0), atol=1e-13)
    np.testing.assert_allclose(state.v_WB[model.body("a")], [1, 2, 3])
    array = bf.rest(model, jnp.array([-0.2, -0.5, 1.1, 0.7]), jnp.array([0, 1.5, 0.4, -2.0]))
    np.testing.assert_allclose(array.w_WB, state.w_WB, atol=1e-14)


def test_velocities_of_a_start_leave_every_joint_closed_a_moment_later():
    model = bf.replace(mixed(root="base"), velocity={"a": (1, 2, 3)}, spin={"a": (0.5, -1, 2)})
    state = bf.rest(model, {"hinge": 0.7}, {"hinge": -2.0, "slider": 3.0, "universal": (1.5, 0.4)})
    h = 1e-6
    R = state.R_WB + h * jnp.cross(state.w_WB[:, None], jnp.swapaxes(state.R_WB, 1, 2)).swapaxes(1, 2)
    later = bf.replace(model, state, p_WB=state.p_WB + h * state.v_WB, R_WB=R)
    assert joint_error(model, later).max() < 1e-10  # of the second order in h
    moved = (bf.joint_positions(model, later)["slider"] - 0.0) / h
    np.testing.assert_allclose(moved, 3.0, rtol=1e-5)


def test_without_velocities_bodies_move_as_described():
    model = bf.replace(mixed(), velocity=jnp.ones((3, 3)))
    np.testing.assert_array_equal(bf.rest(model, {"hinge": 0.2}).v_WB, 1)


def test_gradients_of_a_start_by_positions_and_velocities_are_central_differences():
    model = mixed((2, 1, 0), ("slider", "universal"))

    def f(q, rate, length):
        changed = bf.replace(model, p_BJ={"hinge": (0.0, 0.1, length)})
        state = bf.rest(changed, {"hinge": q, "universal": (q, 0.3)}, {"hinge": rate, "slider": q * rate})
        state = bf.replace(changed, state, w_WB={"b": (q, rate, length)})
        read = (*bf.joint_positions(changed, state).values(), *bf.joint_velocities(changed, state).values())
        return sum(jnp.sin(x).sum() for x in (state.p_WB, state.R_WB, state.v_WB, state.w_WB, *read))

    at = tuple(map(jnp.asarray, (0.4, -1.3, 0.2)))
    check_grads(f, at, order=1, modes=("rev",), eps=1e-5, rtol=1e-6)


def test_a_start_that_cannot_be_says_why():
    loop = bf.robots.four_bar()
    with pytest.raises(ValueError, match=r'joint "far" closes a loop.*leave it out'):
        bf.rest(loop, {"far": 0.1})
    model = mixed()
    with pytest.raises(ValueError, match='positions: unknown joint "hinges"; did you mean "hinge"'):
        bf.rest(model, {"hinges": 0.1})
    with pytest.raises(ValueError, match=r'velocities of joint "universal" has shape \(\) but needs \(2,\)'):
        bf.rest(model, velocities={"universal": 0.1})
