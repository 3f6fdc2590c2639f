"""What every sensor is: a value that owns all there is to know about itself.

The sensors that come with backflip are in `backflip.sense`; one of your own is a frozen dataclass of the same
kind, anywhere, and is added to the Builder like the others.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from jax import Array

if TYPE_CHECKING:
    from backflip.model.facts import Topology


@dataclass(frozen=True)
class Sensor(ABC):
    """Base of all sensors: a frozen dataclass that says what it checks, how big it is and what it reads.

    `name` is the key of its reading in `readings()`; None: its class and the names it is given, such as
    `JointAngle(knee)`.
    """

    unit: ClassVar[str] = ""
    """what its numbers are measured in, "m/s"; "1" for numbers without a unit"""

    name: str | None = field(default=None, kw_only=True)

    @abstractmethod
    def check(self, facts: "Topology") -> None:
        """Raise ValueError for what this model cannot give; `facts.body(name)` and the like do for names."""

    @abstractmethod
    def size(self, facts: "Topology") -> int:
        """How many numbers it reads in this model."""

    def angles(self, facts: "Topology") -> tuple[bool, ...]:
        """Which of its `size` numbers are angles [rad] that jump from π to −π; identify() unwraps these."""
        return (False,) * self.size(facts)

    def leaves(self) -> Mapping[str, Any]:
        """Numbers to differentiate by, by name; they become `model.sensors[i]` and come back to `read`."""
        return {}

    @abstractmethod
    def read(self, sight: Any, leaves: Mapping[str, Array]) -> Array:
        """The reading, `size` numbers, from a `backflip.sense.Sight` and this sensor's leaves."""

    @property
    def label(self) -> str:
        """Its name, or its class with the names it was given."""
        if self.name is not None:
            return self.name
        own = (getattr(self, f.name) for f in fields(self) if f.name != "name")
        return f"{type(self).__name__}({', '.join(x for x in own if isinstance(x, str))})"


def labels_of(sensors: tuple[Sensor, ...]) -> tuple[str, ...]:
    """One key for each sensor; of several with the same label the second is `label 2`, and so on."""
    labels: list[str] = []
    for sensor in sensors:
        count = [s.label for s in sensors[: len(labels)]].count(sensor.label)
        labels.append(f"{sensor.label} {count + 1}" if count else sensor.label)
    return tuple(labels)
