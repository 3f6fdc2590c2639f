"""The discrete half of a Model: names, kinds, who is joined to whom. Hashable, so jit can key on it."""

from dataclasses import dataclass
from functools import cached_property

from backflip.geometry import Outline, Pair, Shape, pair_of
from backflip.model.joints import JointKind, kind_order
from backflip.model.names import index_of
from backflip.model.sensor import Sensor, labels_of
from backflip.solve import Layout

WORLD = -1
"""Body index of the world: it never moves."""


@dataclass(frozen=True)
class JointFact:
    """A joint of body `a` (parent) and body `b` (child); `role` says how the solver treats it.

    tree  eliminated exactly along the tree        loop  rows that close a loop
    soft  rows with a frequency and damping ratio
    """

    name: str
    kind: JointKind
    a: int
    b: int
    role: str
    limited: tuple[bool, ...] = ()


@dataclass(frozen=True)
class ShapeFact:
    """A shape on a body; where a material number is not given the partner's counts."""

    name: str
    kind: type[Shape]
    body: int
    friction_given: bool
    restitution_given: bool
    outline: Outline | None = None
    """faces and edges of a shape with corners"""


@dataclass(frozen=True)
class ActuatorFact:
    """What one number of `u` does: servo or motor on coordinate `index`, force or torque on body `index`."""

    name: str
    kind: str
    index: int


@dataclass(frozen=True)
class Group:
    """Bodies of one depth that hang by one kind of joint, which can be worked on at once."""

    kind: JointKind | None
    """None: roots, which hang from nothing"""
    freedoms: int
    bodies: tuple[int, ...]
    parents: tuple[int, ...]
    joints: tuple[int, ...]
    """−1 for roots"""
    signs: tuple[int, ...]
    """+1 where the child is the joint's body b, −1 where it is a"""


@dataclass(frozen=True)
class PairGroup:
    """Pairs of shapes of the same kinds and outlines, which can be worked on at once."""

    kinds: tuple[type[Shape], type[Shape]]
    outlines: tuple[Outline | None, Outline | None]
    pairs: tuple[tuple[int, int], ...]

    @cached_property
    def pair(self) -> Pair:
        """How these kinds collide."""
        return pair_of(*self.kinds)

    @property
    def count(self) -> int:
        """Candidate contacts of every pair."""
        return self.pair.count


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
        return tuple((j, k) for j, fact in enumerate(self.joints) for k in range(len(fact.kind.units)))

    def coordinates_of(self, joint: int) -> slice:
        """Where the coordinates of a joint are among all coordinates."""
        first = sum(len(fact.kind.units) for fact in self.joints[:joint])
        return slice(first, first + len(self.joints[joint].kind.units))

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
        return index_of("body force", name, [self.actuators[i].name for i in self.on_body])

    @cached_property
    def on_body(self) -> tuple[int, ...]:
        """Body forces and torques, as places in `u`."""
        return tuple(i for i, fact in enumerate(self.actuators) if fact.kind in ("force", "torque"))

    def sensor(self, name: str) -> int:
        """Index of a sensor by the key of its reading."""
        return index_of("sensor", name, self.sensor_names)

    @cached_property
    def sensor_names(self) -> tuple[str, ...]:
        """The key of every sensor's reading."""
        return labels_of(self.sensors)

    def of_kind(self, kind: str) -> tuple[int, ...]:
        """Actuators of one kind, as places in `u`."""
        return tuple(i for i, fact in enumerate(self.actuators) if fact.kind == kind)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The tree from the roots outwards, cut into groups that can be worked on at once."""
        links = _links(self)
        members: dict[tuple[int, JointKind | None], list[int]] = {}
        for b in sorted(links):
            kind = None if links[b].joint < 0 else self.joints[links[b].joint].kind
            members.setdefault((links[b].depth, kind), []).append(b)

        def order(key: tuple[int, JointKind | None]) -> tuple[int, str]:
            return key[0], kind_order(key[1]) if key[1] else ""

        free = 3 if self.planar else 6
        return tuple(
            Group(
                kind=kind,
                freedoms=kind.freedoms if kind else free,
                bodies=tuple(members[depth, kind]),
                parents=tuple(links[b].parent for b in members[depth, kind]),
                joints=tuple(links[b].joint for b in members[depth, kind]),
                signs=tuple(links[b].sign for b in members[depth, kind]),
            )
            for depth, kind in sorted(members, key=order)
        )

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """The root of every body's tree; −1 where it hangs from the world."""
        root = {WORLD: WORLD}
        for group in self.groups:
            for body, parent in zip(group.bodies, group.parents, strict=True):
                root[body] = root[parent] if group.kind else body
        return tuple(root[b] for b in range(len(self.bodies)))

    @cached_property
    def joint_kinds(self) -> tuple[JointKind, ...]:
        """Every kind that occurs, each once, in the order in which kinds are worked on."""
        return tuple(sorted({fact.kind for fact in self.joints}, key=kind_order))

    @cached_property
    def layout(self) -> Layout:
        """Where the rows of each sort stand."""

        def held(role: str) -> int:
            return sum(6 - j.kind.freedoms for j in self.joints if j.role == role)

        servos = len(self.of_kind("servo"))
        blocks = (
            ("limit", len(self.limits)),
            ("servo", servos),
            ("loop", held("loop")),
            ("soft", held("soft")),
        )
        return Layout(blocks, tuple((len(group.pairs), group.count) for group in self.pair_groups))


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
