"""float64 for every test of this folder."""

import sys
from pathlib import Path

import jax
import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield
