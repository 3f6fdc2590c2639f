"""Rays against solids, many at once: vectors have their three components first, (3, ...).

All give t [m], inf for a miss, and the normal there, of rays o + t d, |d| = 1, in the solid's frame.
"""

import numpy as np

Real = float | np.floating


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a · b over the first axis."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def hit_walls(walls: np.ndarray, o: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Between planes n · x ≤ c (f, 4) of a convex solid: in through the last, out through the first."""
    walls = walls.astype(np.float32)
    shape = np.broadcast(o[0], d[0]).shape
    t_in, t_out = np.full(shape, -np.inf, np.float32), np.full(shape, np.inf, np.float32)
    normal = np.zeros((3, *shape), np.float32)
    for x, y, z, c in walls:
        n = np.array([x, y, z]).reshape(3, *(1,) * len(shape))
        fall = dot(n, d)
        fall = np.where(np.abs(fall) < 1e-9, np.float32(-1e-9), fall)
        t = (c - dot(n, o)) / fall
        later = (fall < 0) & (t > t_in)
        t_in = np.where(later, t, t_in)
        normal = np.where(later, n, normal)
        t_out = np.where(fall > 0, np.minimum(t, t_out), t_out)
    return np.where((t_in < t_out) & (t_in > 0), t_in, np.inf), normal


def hit_cylinder(radius: Real, half: Real, o: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Between the two caps, and within the endless cylinder: in through the last, out through the first."""
    radius, half = np.float32(radius), np.float32(half)
    up = np.where(np.abs(d[2]) < 1e-9, np.float32(1e-9), d[2])
    caps_in, caps_out = -o[2] / up - half / np.abs(up), -o[2] / up + half / np.abs(up)
    a = np.maximum(d[0] ** 2 + d[1] ** 2, np.float32(1e-12))
    inner = a * radius**2 - (o[0] * d[1] - o[1] * d[0]) ** 2
    middle, spread = -(o[0] * d[0] + o[1] * d[1]) / a, np.sqrt(np.maximum(inner, 0)) / a
    t = np.maximum(caps_in, middle - spread)
    side = middle - spread >= caps_in
    n = np.stack(np.broadcast_arrays((o[0] + t * d[0]) / radius, (o[1] + t * d[1]) / radius, 0 * t))
    cap = np.stack(np.broadcast_arrays(0 * t, 0 * t, -np.sign(up)))
    # a ray along the axis meets no side: it is within or beside
    within = (a > 1e-10) | (o[0] ** 2 + o[1] ** 2 < radius**2)
    seen = within & (inner > 0) & (t < np.minimum(caps_out, middle + spread)) & (t > 0)
    return np.where(seen, t, np.inf), np.where(side, n, cap)


def hit_box(half: np.ndarray, o: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Between three pairs of planes: in through the last, out through the first."""
    safe = np.where(np.abs(d) < 1e-9, np.float32(1e-9), d)
    half = half.reshape(3, *(1,) * (safe.ndim - 1))
    middle, spread = -o / safe, half / np.abs(safe)
    t_in, t_out = middle - spread, (middle + spread).min(axis=0)
    axis = t_in.argmax(axis=0)
    t = np.take_along_axis(t_in, axis[None], axis=0)[0]
    normal = np.where(np.arange(3).reshape(half.shape) == axis, -np.sign(safe), 0)
    return np.where((t < t_out) & (t > 0), t, np.inf), normal


def hit_round(radius: Real, half: Real, o: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A capsule along z, its cylinder from −half to half; half = 0 is a sphere.

    Where a ray meets the endless cylinder, and at the end of the axis where that is beyond it, sits a ball
    that the capsule is as wide as: the ray meets the capsule where it meets that ball.
    """
    radius, half = np.float32(radius), np.float32(half)
    p = np.stack(np.broadcast_arrays(*o, d[0])[:3])
    if half > 0:
        # t of the cylinder: a t² + 2 b t + c = 0, with b² − a c = a r² − (o × d)_z²
        a = np.maximum(d[0] ** 2 + d[1] ** 2, np.float32(1e-12))
        inner = a * radius**2 - (o[0] * d[1] - o[1] * d[0]) ** 2
        t = (-o[0] * d[0] - o[1] * d[1] - np.sqrt(np.maximum(inner, 0))) / a
        p[2] -= np.clip(o[2] + t * d[2], -half, half)
    along = dot(p, d)
    nearest = p - along * d
    inner = radius**2 - dot(nearest, nearest)
    back = np.sqrt(np.maximum(inner, 0))
    t = -along - back
    return np.where((inner > 0) & (t > 0), t, np.inf), (nearest - back * d) / radius
