"""A sensor of one's own: a class in one's own file is all it takes."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import backflip as bf


@dataclass(frozen=True)
class Compass(bf.Sensor):
    """Which way the body's x axis points [rad], from `north` on, seen from above."""

    unit: ClassVar[str] = "rad"
    body: str
    north: float = 0.0

    def check(self, facts):
        facts.body(self.body)
        if not np.isfinite(self.north):
            raise ValueError(f"north is {self.north}; give an angle in rad")

    def size(self, facts):
        return 1

    def angles(self, facts):
        return (True,)

    def leaves(self):
        return {"north": self.north}

    def read(self, sight, leaves):
        x, y, _ = sight.state.R_WB[sight.model.body(self.body)][:, 0]
        heading = jnp.arctan2(y, x) - leaves["north"]
        return jnp.arctan2(jnp.sin(heading), jnp.cos(heading))


def boat(*sensors) -> bf.Model:
    b = bf.Builder()
    b.add_body("boat", bf.Box((2, 1, 0.5)), rotation=(0, 0, 0.7))
    b.add_sensor(bf.AngularVelocity("boat"), *sensors)
    return b.build()


def test_a_compass_from_the_test_folder_reads_the_heading():
    model = boat(Compass("boat", north=0.2), Compass("boat", name="second compass"))
    state = bf.rest(model)
    assert model.observation_size == 5 and model.sensor("second compass") == 2
    np.testing.assert_allclose(bf.observe(model, state), [0, 0, 0, 0.5, 0.7], atol=1e-14)
    assert list(bf.readings(model, state)) == ["AngularVelocity(boat)", "Compass(boat)", "second compass"]


def test_its_leaves_are_differentiated_like_any_others():
    model = boat(Compass("boat"))

    def reading(north, turn):
        changed = bf.replace(model, sensors={"Compass(boat)": {"north": north}})
        c, s, o, i = jnp.cos(turn), jnp.sin(turn), jnp.zeros(()), jnp.ones(())
        R = jnp.stack([jnp.stack(row) for row in ([c, -s, o], [s, c, o], [o, o, i])])
        start = bf.replace(changed, bf.rest(changed), R_WB={"boat": R})
        return bf.observe(changed, start)[-1]

    at = (jnp.asarray(0.3), jnp.asarray(0.7))
    np.testing.assert_allclose(jax.grad(reading, (0, 1))(*at), [-1, 1], atol=1e-12)
    check_grads(reading, at, order=1, modes=("rev",), eps=1e-5)


def test_its_own_checks_are_asked_and_name_it():
    with pytest.raises(ValueError, match=r'sensor Compass\(bot\): unknown body "bot"; did you mean "boat"'):
        boat(Compass("bot"))
    with pytest.raises(ValueError, match=r"sensor Compass\(boat\): north is nan; give an angle"):
        boat(Compass("boat", north=float("nan")))


def test_a_reading_of_another_size_than_promised_is_refused():
    @dataclass(frozen=True)
    class Liar(Compass):
        def size(self, facts):
            return 2

    model = boat(Liar("boat"))
    with pytest.raises(ValueError, match=r"sensor Liar\(boat\): it reads 1 numbers but its size\(\) is 2"):
        bf.observe(model, bf.rest(model))


def test_what_is_no_sensor_and_names_used_twice_are_refused():
    with pytest.raises(ValueError, match="is not a sensor"):
        boat(Compass)
    with pytest.raises(ValueError, match='sensor "c": the name is used twice'):
        boat(Compass("boat", name="c"), Compass("boat", name="c"))
    same = boat(Compass("boat"), Compass("boat", north=1.0))
    assert same.topology.sensor_names[1:] == ("Compass(boat)", "Compass(boat) 2")


class Careless(bf.Sensor):
    """Not a dataclass: two of them, of other bodies, would look the same."""

    def __init__(self, body: str):
        object.__setattr__(self, "body", body)
        object.__setattr__(self, "name", None)

    def check(self, facts):
        facts.body(self.body)

    def size(self, facts):
        return 1

    def read(self, sight, leaves):
        return sight.state.p_WB[sight.model.body(self.body), :1]


def test_a_sensor_that_cannot_be_told_from_others_is_refused():
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(0.1))
    b.add_sensor(Careless("ball"))
    with pytest.raises(ValueError, match=r"sensor Careless.*frozen dataclass"):
        b.build()
