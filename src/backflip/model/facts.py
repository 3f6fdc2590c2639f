"""The discrete half of a Model: names, kinds, who is joined to whom. Hashable, so jit can key on it."""

from dataclasses import dataclass
from functools import cached_property

from backflip.geometry import Outline
from backflip.model.names import index_of
from backflip.model.sensor import Sensor, labels_of

WORLD = -1
"""Body index of the world: it never moves."""

HOLDS = {"hold x": "x", "hold z": "z", "hold rotation": "rotation"}
"""Joints of planar scenes that hold one of the three freedoms of a body, and which."""

COORDINATES = {
    "free": 0, "planar": 0, "fixed": 0, "ball": 0, "hinge": 1, "slider": 1, "universal": 2,
    **dict.fromkeys(HOLDS, 0),
}  # fmt: skip
"""How many angles or positions of a joint can be read, limited and driven."""

FREEDOMS = {
    "free": 6, "planar": 3, "fixed": 0, "ball": 3, "hinge": 1, "slider": 1, "universal": 2,
    **dict.fromkeys(HOLDS, 2),
}  # fmt: skip
"""How many independent velocities a joint leaves between its bodies."""


Axis = tuple[float, float, float]


def holding(body: str, what: tuple[str, ...]) -> tuple[str, tuple[Axis, ...]]:
    """Kind and axes of the joint that holds these of the x, z and rotation of a body."""
    known: dict[tuple[str, ...], tuple[str, tuple[Axis, ...]]] = {
        ("x",): ("hold x", ()),
        ("z",): ("hold z", ()),
        ("rotation",): ("hold rotation", ()),
        ("x", "z"): ("hinge", ((0.0, 1.0, 0.0),)),
        ("rotation", "x"): ("slider", ((0.0, 0.0, 1.0),)),
        ("rotation", "z"): ("slider", ((1.0, 0.0, 0.0),)),
        ("rotation", "x", "z"): ("fixed", ()),
    }
    if tuple(sorted(what)) not in known:
        raise ValueError(f'add_hold of body "{body}": {what!r}; give one or more of "x", "z", "rotation"')
    return known[tuple(sorted(what))]


@dataclass(frozen=True)
class JointFact:
    """A joint of body `a` (parent) and body `b` (child); `role` says how the solver treats it.

    tree  eliminated exactly along the tree        loop  rows that close a loop
    soft  rows with a frequency and damping ratio
    """

    name: str
    kind: str
    a: int
    b: int
    role: str
    limited: tuple[bool, ...] = ()


@dataclass(frozen=True)
class ShapeFact:
    """A shape on a body; where a material number is not given the partner's counts."""

    name: str
    kind: str
    body: int
    friction_given: bool
    restitution_given: bool
    outline: Outline | None = None
    """faces and edges of a hull"""
    measures: int = 0
    """how many of the three numbers of its size it uses"""


@dataclass(frozen=True)
class ActuatorFact:
    """What one number of `u` does: servo or motor on coordinate `index`, force or torque on body `index`."""

    name: str
    kind: str
    index: int


@dataclass(frozen=True)
class Group:
    """Bodies of one depth in the tree, hung from their parents by joints of one kind."""

    kind: str
    bodies: tuple[int, ...]
    parents: tuple[int, ...]
    joints: tuple[int, ...]
    """−1 where a root hangs from nothing"""
    signs: tuple[int, ...]
    """+1 where the child is the joint's body b, −1 where it is a"""


@dataclass(frozen=True)
class PairGroup:
    """Pairs of shapes of the same kinds and outlines, which can be worked on at once."""

    kinds: tuple[str, str]
    outlines: tuple[Outline | None, Outline | None]
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Topology:
    """Everything discrete about a Model."""

    bodies: tuple[str, ...]
    joints: tuple[JointFact, ...]
    shapes: tuple[ShapeFact, ...]
    pairs: tuple[tuple[int, int], ...]
    actuators: tuple[ActuatorFact, ...]
    sensors: tuple[Sensor, ...]
    planar: bool
    mass_given: tuple[bool, ...]
    inertia_given: tuple[bool, ...]

    @cached_property
    def coordinates(self) -> tuple[tuple[int, int], ...]:
        """(joint, axis of the joint) of every readable coordinate, in joint order."""
        return tuple((j, k) for j, fact in enumerate(self.joints) for k in range(COORDINATES[fact.kind]))

    @cached_property
    def limits(self) -> tuple[int, ...]:
        """Coordinates that have limits."""
        return tuple(c for c, (j, k) in enumerate(self.coordinates) if self.joints[j].limited[k])

    @cached_property
    def pair_groups(self) -> tuple[PairGroup, ...]:
        """The pairs that may touch, in the order of the contact rows."""
        members: dict[tuple, list[tuple[int, int]]] = {}
        for i, k in self.pairs:
            a, b = self.shapes[i], self.shapes[k]
            members.setdefault(((a.kind, b.kind), (a.outline, b.outline)), []).append((i, k))
        return tuple(PairGroup(kinds, outlines, tuple(pairs)) for (kinds, outlines), pairs in members.items())

    def corners(self, shape: int) -> slice:
        """Where the corners of a hull are in the Model's `vertices`."""
        counts = [s.outline.count if s.outline else 0 for s in self.shapes]
        return slice(sum(counts[:shape]), sum(counts[: shape + 1]))

    def body(self, name: str) -> int:
        """Index of a body by name."""
        return index_of("body", name, self.bodies)

    def joint(self, name: str) -> int:
        """Index of a joint by name."""
        return index_of("joint", name, [fact.name for fact in self.joints])

    def shape(self, name: str) -> int:
        """Index of a shape by name."""
        return index_of("shape", name, [fact.name for fact in self.shapes])

    def actuator(self, name: str) -> int:
        """Place of an actuator in `u`, by name."""
        return index_of("actuator", name, [fact.name for fact in self.actuators])

    def servo(self, name: str) -> int:
        """Place of a servo among the servos, by name."""
        return index_of("servo", name, [self.actuators[i].name for i in self.of_kind("servo")])

    def body_force(self, name: str) -> int:
        """Place of a body force or torque among these, by name."""
        on_body = [fact.name for fact in self.actuators if fact.kind in ("force", "torque")]
        return index_of("body force", name, on_body)

    def sensor(self, name: str) -> int:
        """Index of a sensor by the key of its reading."""
        return index_of("sensor", name, self.sensor_names)

    @cached_property
    def sensor_names(self) -> tuple[str, ...]:
        """The key of every sensor's reading."""
        return labels_of(self.sensors)

    def coordinates_of(self, joint: str) -> slice:
        """Where the coordinates of a joint are among all coordinates."""
        j = self.joint(joint)
        first = sum(i < j for i, _ in self.coordinates)
        return slice(first, first + sum(i == j for i, _ in self.coordinates))

    def of_kind(self, kind: str) -> tuple[int, ...]:
        """Actuators of one kind, as places in `u`."""
        return tuple(i for i, fact in enumerate(self.actuators) if fact.kind == kind)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The tree from the roots outwards, cut into groups that can be worked on at once."""
        links = _links(self)
        root = "planar" if self.planar else "free"

        def key(b: int) -> tuple[int, str]:
            link = links[b]
            return link.depth, root if link.joint < 0 else self.joints[link.joint].kind

        return tuple(
            Group(
                kind=k[1],
                bodies=(members := tuple(b for b in sorted(links) if key(b) == k)),
                parents=tuple(links[b].parent for b in members),
                joints=tuple(links[b].joint for b in members),
                signs=tuple(links[b].sign for b in members),
            )
            for k in sorted({key(b) for b in links})
        )


@dataclass(frozen=True)
class _Link:
    parent: int
    joint: int
    sign: int
    depth: int


def _links(facts: Topology) -> dict[int, _Link]:
    """How every body hangs in the tree: breadth first from the world, then from each body left over."""
    ends = [(j, f.a, f.b) for j, f in enumerate(facts.joints) if f.role == "tree"]
    neighbours: dict[int, list[tuple[int, int, int]]] = {}
    for j, a, b in ends:
        neighbours.setdefault(a, []).append((j, b, 1))
        neighbours.setdefault(b, []).append((j, a, -1))
    links: dict[int, _Link] = {}
    for root in (WORLD, *range(len(facts.bodies))):
        if root in links:
            continue
        if root != WORLD:
            links[root] = _Link(WORLD, -1, 1, 0)
        queue = [root]
        while queue:
            a = queue.pop(0)
            for j, b, sign in neighbours.get(a, []):
                if b == WORLD or b in links:
                    continue
                links[b] = _Link(a, j, sign, 0 if a == WORLD else links[a].depth + 1)
                queue.append(b)
    return links
