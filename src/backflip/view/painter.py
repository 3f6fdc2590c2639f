"""A painter for pictures without a display: rays from the eye meet solids, and the sun casts shadows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from backflip.view.camera import EYE, FIELD, SUN, Camera, rectangle, unit
from backflip.view.colour import SKY
from backflip.view.look import Look, radius
from backflip.view.rays import Solid, turned
from backflip.view.scene import WORLD, Part, Scene, colour_of
from backflip.view.shadow import SunMap

FINE = 2
"""Solids are painted this many times finer than the picture, so that edges come out smooth."""
SHADE, SUNSHINE = 0.55, 0.55
"""Brightness out of the sun, and what the sun adds where it falls straight on."""
TILE_LIGHT = 0.45
"""How much lighter every other tile is, between the plane's colour and white."""
HAZE = (4.0, 20.0)
"""Distances in radii of what is in view; between them the ground fades into the sky."""


def rgb(colour: str) -> np.ndarray:
    """(3,) 0 to 255 of a CSS hex colour."""
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.float32)


@dataclass(frozen=True)
class Painter:
    """Paints pictures of one scene, each `size` [pixels] wide and high."""

    scene: Scene
    look: Look
    size: tuple[int, int]

    @property
    def reach(self) -> float:
        """[m] radius of what is to be seen."""
        return radius(self.look.view)

    @cached_property
    def coarse(self) -> Camera:
        """For sky and ground."""
        return Camera(*self.size, self.look.view)

    @cached_property
    def camera(self) -> Camera:
        """For solids."""
        return Camera(FINE * self.size[0], FINE * self.size[1], self.look.view)

    def target(self, i: int) -> np.ndarray:
        """(3,) [m] what the eye looks at in picture i, in W."""
        return self.look.path[i] if self.look.follow else self.look.centre

    def paint(self, i: int) -> np.ndarray:
        """Picture i, FINE times too large: (height, width, 3) bytes."""
        solids = [self.placed(part, i) for part in self.scene.parts]
        bodies = [solid for solid in solids if not solid.part.kind.endless]
        sun = SunMap(1.6 * self.reach, texels=self.size[0])
        for solid in bodies:
            sun.cast(solid)
        picture, depth = self._backdrop([solid for solid in solids if solid.part.kind.endless], sun)
        for solid in bodies:
            self._add(picture, depth, solid, sun)
        return picture

    def placed(self, part: Part, i: int) -> Solid:
        """A part in picture i, placed from the target: numbers stay small however far a robot walks."""
        p, R = np.asarray(part.p_CS, float), np.asarray(part.R_BS, float)
        if part.body != WORLD:
            R_WB = self.scene.R_WB[i, part.body]
            p, R = self.scene.p_WB[i, part.body] + R_WB @ p, R_WB @ R
        return Solid(part, p - self.target(i), R, rgb(colour_of(part)))

    def _backdrop(self, planes: list[Solid], sun: SunMap) -> tuple[np.ndarray, np.ndarray]:
        """Sky and planes (height, width, 3) as bytes, and how far away they are (height, width) [m]."""
        d = self.coarse.rays
        picture = np.broadcast_to(rgb(SKY).astype(np.uint8), (*d.shape[1:], 3)).copy()
        depth = np.full(d.shape[1:], np.inf, np.float32)
        for plane in planes:
            n = plane.R[:, 2]
            fall = -turned(n[None], d)[0]
            # a plane is seen from its front only
            t = float((self.coarse.distance * EYE - plane.p) @ n) / np.where(fall > 1e-4, fall, -1)
            seen = (t > 0) & (t < np.minimum(depth, HAZE[1] * self.reach))
            depth[seen] = t[seen]
            lit = _softened(sun.lit(self._points(t)))
            light = SHADE + SUNSHINE * max(float(n @ SUN), 0.0) * lit
            picture[seen] = self._hazy(self._tiles(plane, t, fall) * light[..., None], t)[seen]
        return tuple(x.repeat(FINE, axis=0).repeat(FINE, axis=1) for x in (picture, depth))  # type: ignore[return-value]

    def _points(self, t: np.ndarray) -> np.ndarray:
        """(3, height, width) [m] t along the coarse rays, from the target."""
        eye = (self.coarse.distance * EYE).astype(np.float32)
        return t * self.coarse.rays + eye[:, None, None]

    def _tiles(self, plane: Solid, t: np.ndarray, fall: np.ndarray) -> np.ndarray:
        """Colours (height, width, 3) of a plane that rays meet at t [m], falling on it with cosine `fall`."""
        across, tile = plane.R[:, :2].T, self.look.tile
        # whole pairs of tiles are left out, to keep numbers small
        start = (across @ plane.p % (2 * tile)).astype(np.float32)
        x, y = turned(across, self._points(t)) - start[:, None, None]
        # a pixel covers more of the plane along the view than across it
        wide = t * (FIELD / self.coarse.height / tile)
        long = wide / np.maximum(fall, 1e-4)
        a, b = (float(abs(side)) for side in unit(*(across @ EYE)))
        odd = 0.5 - 0.5 * _stripes(x / tile, a * long + b * wide) * _stripes(y / tile, b * long + a * wide)
        return plane.colour + TILE_LIGHT * odd[..., None] * (255 - plane.colour)

    def _hazy(self, colours: np.ndarray, t: np.ndarray) -> np.ndarray:
        """What is far away fades into the sky."""
        near, far = HAZE
        haze = np.clip((t / self.reach - near) / (far - near), 0, 1)[..., None]
        return np.clip(colours + haze * (rgb(SKY) - colours), 0, 255)

    def _add(self, picture: np.ndarray, depth: np.ndarray, solid: Solid, sun: SunMap) -> None:
        """Paint a solid where it is nearer than what is there."""
        box = rectangle(*self.camera.seen_at(solid.corners), self.camera.width, self.camera.height)
        d = self.camera.rays[(slice(None), *box)]
        if not d.size:
            return
        eye = self.camera.distance * EYE
        o = (solid.R.T @ (eye - solid.p)).astype(np.float32)[:, None, None]
        t, n = solid.hit(o, turned(solid.R.T, d))
        near = t < depth[box]
        t, n, d = t[near], n[:, near], d[:, near]
        depth[box][near] = t
        p, n_W = t * d + eye.astype(np.float32)[:, None], turned(solid.R, n)
        shine = np.maximum(turned(SUN[None], n_W)[0], 0) * sun.lit(p, slack=3 * sun.texel)
        # what faces down gets less of the sky's light
        light = SHADE * (0.85 + 0.15 * n_W[2]) + SUNSHINE * shine
        picture[box][near] = np.minimum(_skin(solid, n) * light[:, None], 255)


def _stripes(x: np.ndarray, width: np.ndarray) -> np.ndarray:
    """1 and −1 in turn over unit stretches of x, averaged over `width`: fine stripes go grey, not wild.

    The integral of stripes is a triangle wave; see I. Quilez, "Filtering procedural textures" (2017).
    """
    low, high = (2 * np.abs((x + side * width) / 2 % 1 - 0.5) for side in (-0.5, 0.5))
    return (low - high) / width


def _softened(lit: np.ndarray) -> np.ndarray:
    """0 to 1 (height, width): shadows with soft edges."""
    from PIL import Image, ImageFilter

    soft = Image.fromarray(255 * lit.astype(np.uint8)).filter(ImageFilter.BoxBlur(1.5))
    return np.asarray(soft) / np.float32(255)


def _skin(solid: Solid, n: np.ndarray) -> np.ndarray:
    """Colours (m, 3) where normals are n (3, m), in S; balls are two-tone, so that they are seen to turn."""
    if not solid.part.kind.two_tone:
        return solid.colour
    odd = np.logical_xor.reduce(n > 0)
    return solid.colour + 0.25 * odd[:, None] * (255 - solid.colour)
