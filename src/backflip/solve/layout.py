"""The order of rows: named blocks of scalar rows, then contacts, three rows each, patch by patch.

The rows of a contact are its normal and two tangents. Contacts of one pair of shapes form a patch.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jax import Array


@dataclass(frozen=True)
class Layout:
    """r rows = s scalar rows + 3 k contact rows: normal and two tangents of every contact."""

    blocks: tuple[tuple[str, int], ...]
    """name and number of rows of every block of scalar rows"""
    patches: tuple[tuple[int, int], ...] = ()
    """(m, c) for every m patches of c contacts each"""

    @cached_property
    def scalars(self) -> int:
        """s"""
        return sum(count for _, count in self.blocks)

    @cached_property
    def contacts(self) -> int:
        """k"""
        return sum(m * c for m, c in self.patches)

    @cached_property
    def rows(self) -> int:
        """r"""
        return self.scalars + 3 * self.contacts

    def block(self, name: str) -> slice:
        """Rows of a block of scalar rows."""
        place = [known for known, _ in self.blocks].index(name)
        first = sum(count for _, count in self.blocks[:place])
        return slice(first, first + self.blocks[place][1])

    def by_contact(self, x: Array) -> Array:
        """The contacts (k, 3, ...) of an array over rows (r, ...)."""
        return x[self.scalars :].reshape(self.contacts, 3, *x.shape[1:])

    def by_patch(self, x: Array) -> list[Array]:
        """An array over contacts (k, ...) as patches (m, c, ...)."""
        ends = np.cumsum([m * c for m, c in self.patches])
        return [
            x[end - m * c : end].reshape(m, c, *x.shape[1:])
            for end, (m, c) in zip(ends, self.patches, strict=True)
        ]

    def by_group(self, x: Array) -> list[Array]:
        """An array over rows (r, ...) as scalar rows (s, ...), then patches (m, c, 3, ...)."""
        return [x[: self.scalars], *self.by_patch(self.by_contact(x))]

    @cached_property
    def bounded_first(self) -> np.ndarray:
        """(r,) rows in another order: scalar rows, normals, tangents."""
        contact = np.arange(self.scalars, self.rows).reshape(-1, 3)
        return np.concatenate([np.arange(self.scalars), contact[:, 0], contact[:, 1:].reshape(-1)])
