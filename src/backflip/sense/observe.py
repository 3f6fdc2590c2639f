"""Sensor readings: one after the other in the order they were added, or by name."""

import jax
import jax.numpy as jnp
from jax import Array

from backflip import lanes
from backflip.model import Model, Sensor, State, expect_state
from backflip.sense.sight import Sight


@jax.jit
@lanes.compile
def observe(model: Model, state: State) -> Array:
    """All sensor readings in one vector; the state itself, positions then velocities, if there are none."""
    expect_state("observe", model, state)
    return jnp.concatenate(_values(model, state))


def readings(model: Model, state: State) -> dict[str, Array]:
    """What every sensor reads (its size,), by its name, in the order of observe() (jit sorts them).

    A sensor without a name of its own is called by its class and what it senses: `JointAngle(knee)`. Where
    there are no sensors these are `p_WB`, `R_WB`, `v_WB` and `w_WB` of the state.
    """
    expect_state("readings", model, state)
    return dict(zip(model.topology.sensor_names or STATE, _all_values(model, state), strict=True))


STATE = ("p_WB", "R_WB", "v_WB", "w_WB")
"""What is observed without sensors."""


def reading_sizes(model: Model) -> tuple[int, ...]:
    """How many numbers each sensor gives."""
    return tuple(sensor.size(model.topology) for sensor in model.topology.sensors)


def _values(model: Model, state: State) -> tuple[Array, ...]:
    """The reading (its size,) of every sensor."""
    facts = model.topology
    if not facts.sensors:
        return tuple(getattr(state, name).reshape(-1) for name in STATE)
    sight = Sight(model, state)
    return tuple(
        _reading(name, sensor, sight, leaves)
        for name, sensor, leaves in zip(facts.sensor_names, facts.sensors, model.sensors, strict=True)
    )


_all_values = jax.jit(lanes.compile(_values))


def _reading(name: str, sensor: Sensor, sight: Sight, leaves: dict[str, Array]) -> Array:
    """A reading of the size its sensor promises; what goes wrong in it says in which sensor."""
    try:
        reading = jnp.ravel(jnp.asarray(sensor.read(sight, leaves)))
    except Exception as error:
        error.add_note(f"while sensor {name} was read")
        raise
    size = sensor.size(sight.model.topology)
    if reading.shape != (size,):
        raise ValueError(f"sensor {name}: it reads {reading.size} numbers but its size() is {size}")
    return reading
