"""Robots on several devices, and programs for other machines."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from backflip import lanes

TWO = """
import jax, jax.numpy as jnp, numpy as np
import backflip as bf
from backflip import lanes
from jax.sharding import AxisType, NamedSharding

swing = jax.vmap(lanes.compile(lambda A, x: (jnp.sin(A @ x) + x, x @ x)), (None, 0))
A, x = jnp.eye(3) + 0.1, jnp.arange(24.0).reshape(8, 3) / 7
auto, explicit = (jax.make_mesh((2,), ("i",), axis_types=(t,)) for t in (AxisType.Auto, AxisType.Explicit))


def loss(A, x):
    return sum((y**2).sum() for y in swing(A, x))


def check(name, do, *args, kernels=1):
    compiled = jax.jit(lambda *args: do(*args)).lower(*args).compile()
    text, got = compiled.as_text(), compiled(*args)
    count = text.count('custom_call_target="backflip_lanes')
    assert count == kernels, (name, count)
    with bf.backend("xla"):
        want = jax.jit(lambda *args: do(*args))(*args)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, err_msg=name)
    return got, text


# shard_map, with its check of what varies
mapped = jax.shard_map(swing, mesh=auto, in_specs=(jax.P(), jax.P("i")), out_specs=jax.P("i"))
check("shard_map", mapped, A, x)
slope = jax.grad(lambda A, x: sum((y**2).sum() for y in mapped(A, x)))
check("gradient of shard_map", slope, A, x, kernels=2)
specs = jax.P(), jax.P("i")
inside = jax.shard_map(jax.grad(loss, (0, 1)), mesh=auto, in_specs=specs, out_specs=specs)
check("gradient inside shard_map", inside, A, x, kernels=2)
check("curvature inside shard_map", jax.shard_map(
    lambda A, x: jax.jvp(lambda A: jax.grad(loss, 1)(A, x), (A,), (A,))[1],
    mesh=auto, in_specs=(jax.P(), jax.P("i")), out_specs=jax.P("i")), A, x, kernels=3)

# arrays that are split: every device has its own robots
split = jax.device_put(x, NamedSharding(auto, jax.P("i")))
results, text = check("split", swing, A, split)
assert results[0].sharding.spec == results[1].sharding.spec == jax.P("i")
assert "f32[4,3]" in text and "all-gather" not in text
check("gradient of split", jax.grad(loss, (0, 1)), A, split, kernels=2)
scan = lambda A, x: jax.lax.scan(lambda x, _: (swing(A, x)[0] / 2, None), x, length=3)[0]
assert "all-gather" not in check("scan of split", scan, A, split)[1]
with jax.set_mesh(explicit):
    swung = jax.jit(swing)(A, jax.device_put(x, NamedSharding(explicit, jax.P("i"))))
    np.testing.assert_allclose(swung[1], (x**2).sum(1), rtol=1e-5)
"""


def test_every_device_computes_its_own_robots_by_lanes():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_ENABLE_X64": "0"}
    done = subprocess.run([sys.executable, "-c", TWO], env=os.environ | flags, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Uncovered" not in done.stderr


def test_what_is_exported_is_a_program_of_xla():
    f, x = lanes.compile(lambda x: jnp.sin(x) @ x), jnp.ones(3)
    for function in (f, jax.grad(f)):
        exported = export.export(jax.jit(function))(x)
        assert "backflip_lanes" not in exported.mlir_module()
        np.testing.assert_allclose(exported.call(x), function(x), rtol=1e-12)
