"""The page of sensors says what the classes say."""

import re
from pathlib import Path

import pytest

import backflip as bf
from backflip.sense import sensors

DOCS = Path(__file__).parents[2] / "docs" / "sensors.md"
ROW = re.compile(r"^\| `(\w+)\(.*?\)` \| (\d)[^|]* \| ([^|]+) \|", re.MULTILINE)


@pytest.fixture(scope="module")
def everything() -> bf.Model:
    b = bf.Builder()
    b.add_body("a", bf.Sphere(0.1))
    b.add_hinge("knee", "world", "a", position=(0, 0, 0), axis=(0, 1, 0))
    b.add_servo("knee", gain=1.0, max_velocity=1.0, max_torque=1.0)
    b.add_sensor(bf.JointAngle("knee"), bf.JointRate("knee"), bf.ServoTorque("knee"), bf.ContactForce("a"))
    b.add_sensor(bf.Position("a"), bf.Velocity("a"), bf.Orientation("a"), bf.AngularVelocity("a"))
    b.add_sensor(bf.IMU("a"), bf.Distance("a", target=(0, 0, 0)))
    return b.build()


def test_sizes_and_units_of_the_page_are_those_of_the_sensors(everything):
    facts = everything.topology
    ours = {type(s).__name__: (s.size(facts), s.unit) for s in facts.sensors}
    page = {name: (int(size), unit.strip()) for name, size, unit in ROW.findall(DOCS.read_text("utf-8"))}
    known = {n for n, c in vars(sensors).items() if isinstance(c, type) and issubclass(c, bf.Sensor)}
    assert page == ours
    assert set(page) == {n for n in known if not n.startswith("_")} - {"Sensor"}
    assert everything.observation_size == sum(size for size, _ in ours.values())
