"""Here compiled functions run on lanes, whatever BACKFLIP_LANES says."""

import pytest

import backflip as bf


@pytest.fixture(autouse=True)
def on_lanes():
    with bf.backend("lanes"):
        yield
