"""Here compiled functions run on lanes, with a kernel cache of the test run's own."""

import pytest

import backflip as bf


@pytest.fixture(autouse=True)
def on_lanes():
    with bf.backend("lanes"):
        yield


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BACKFLIP_CACHE", str(tmp_path_factory.mktemp("kernels", numbered=True)))
        yield
