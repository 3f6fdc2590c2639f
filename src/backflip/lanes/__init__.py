"""The same program at native speed on a CPU: jaxpr -> LLVM -> a call that XLA makes.

comes in    any JAX function of one robot
goes out    a JAX function that does the same, several robots per SIMD vector, on all cores
may touch   jax, llvmlite, worker processes, stderr, a cache folder of the user's own
never knows physics
"""

from backflip.lanes.backend import backend, chosen, set_backend
from backflip.lanes.compile import compile, covers
from backflip.lanes.emit import Uncovered

__all__ = ["Uncovered", "backend", "chosen", "compile", "covers", "set_backend"]
