"""The folder of a search belongs to one run at a time, and its checkpoints to the data of that run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf
from backflip.storage import hold_folder

SCHEME, U = bf.Scheme(0.1, bf.PGS(sweeps=1)), jnp.ones((10, 1))


@pytest.fixture(scope="module")
def puck() -> bf.Model:
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("puck", bf.Sphere(0.1), mass=1.0)
    b.add_force("puck", direction=(1, 0, 0))
    b.add_sensor(bf.Position("puck"))
    return b.build()


@pytest.fixture(scope="module")
def readings(puck):
    """A path that no mass explains, so that no start ends the search."""
    path = bf.rollout(SCHEME, puck, bf.rest(puck), U).state
    exact = jax.vmap(bf.observe, (None, 0))(puck, path)
    return exact + 0.3 * jnp.sin(3 * jnp.arange(10.0))[:, None]


def search(puck, readings, folder, noise=0.01, **options):
    def to_model(mass):
        return bf.replace(puck, mass={"puck": mass})

    usual = {"updates": 2, "starts": 3, "noise": noise, "progress": bf.Progress(quiet=True)}
    guess, recorded = bf.bounds.positive(3.0), bf.Recording(readings, U)
    return bf.identify(SCHEME, to_model, guess, recorded, folder=folder, **(usual | options))


def starts_in(folder):
    return sorted(path.name for path in folder.glob("start-*"))


def stop_at_once(row):
    raise RuntimeError("stopped")


def test_a_fresh_search_leaves_nothing_of_an_earlier_one_to_be_resumed(puck, readings, tmp_path):
    search(puck, readings, tmp_path)
    assert starts_in(tmp_path) == ["start-0", "start-1", "start-2"]
    (tmp_path / "start-1" / "notes.txt").touch()
    with pytest.raises(RuntimeError, match="stopped"):
        search(puck, readings, tmp_path, until=stop_at_once)
    assert starts_in(tmp_path) == ["start-0", "start-1"], "what a user put there stays"
    assert [path.name for path in (tmp_path / "start-1").iterdir()] == ["notes.txt"]


def test_a_fresh_search_from_one_start_clears_those_from_several_and_the_other_way_round(
    puck, readings, tmp_path
):
    search(puck, readings, tmp_path)
    search(puck, readings, tmp_path, starts=1)
    assert not starts_in(tmp_path) and (tmp_path / "checkpoint.npz").exists()
    search(puck, readings, tmp_path)
    assert not (tmp_path / "checkpoint.npz").exists()


def test_two_searches_in_one_folder_notice_each_other(puck, readings, tmp_path):
    with hold_folder(tmp_path), pytest.raises(ValueError, match="is using this folder"):
        search(puck, readings, tmp_path)


@pytest.mark.parametrize("starts", [1, 3])
def test_a_search_over_other_readings_is_refused(puck, readings, tmp_path, starts):
    search(puck, readings, tmp_path, starts=starts)
    _, log = search(puck, readings, tmp_path, starts=starts, updates=3, resume=True)
    assert np.isfinite(log.cost).all()
    refused = (
        r"checkpoint\.npz: that search had other data \(readings, controls, .* noise\); resume with the same"
    )
    for other in ({"readings": readings.at[3, 0].add(1e-3)}, {"noise": 0.02}):
        with pytest.raises(ValueError, match=refused):
            search(puck, folder=tmp_path, starts=starts, resume=True, **({"readings": readings} | other))
