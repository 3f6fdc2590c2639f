"""Tests run in float64 and ask XLA for quick compiles: most programs run for less time than they build."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

import jax

jax.config.update("jax_enable_x64", True)
