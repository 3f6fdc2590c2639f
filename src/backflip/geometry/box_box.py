"""Box against box: separating axes, then two faces laid upon each other or two edges crossing.

All in the frame of box A: half edges a and b (3,) [m], centre of B at t, axes of B the columns of C.
"""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.box import face_of, face_table, facing
from backflip.geometry.choose import pick, sign
from backflip.geometry.clip import clip_face, spread
from backflip.geometry.segment import closest_of_segments
from backflip.geometry.touch import ABSENT, Touch
from backflip.math import cross, dot, matmul, matvec, norm, transpose, unit, vecmat

# sin² of the angle below which two edges span no axis (half a degree)
NO_AXIS = 1e-4
# an edge axis this close to a face axis (cosine, 2.5°) is that face: stacks that rock a little stay on faces
FACE_CONE = 0.999
# to be preferred, a face of B must separate better by this part of the smallest half edge
MARGIN = 1e-3
# and edges by this part of the separation as well
EDGE_MARGIN = 0.02
# a direction in A that no face or edge is likely to be square to: where the four points start
HINT = (0.62, 0.31, 0.72)


def collide_box_box(
    size_a: Array, p_WA: Array, R_WA: Array, size_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """Four candidates: corners of the overlap of two faces, or, in the first place, where two edges cross.

    Not smooth where another axis separates better, nor where another point of the overlap is chosen.
    Boxes apart that would miss each other along the best axis have no candidate.
    """
    a, b = size_a / 2, size_b / 2
    t, C = vecmat(p_WB - p_WA, R_WA), matmul(transpose(R_WA), R_WB)
    by_face, by_edge = separations(*stop_gradient((a, b, t, C)))
    margin = MARGIN * stop_gradient(-pick(-jnp.concatenate([a, b]), by_face[:, None])[0])
    best_face, face = touch_faces(a, b, t, C, by_face, margin)
    best_edge, edge = touch_edges(a, b, t, C, by_edge)
    crossing = best_edge > best_face + EDGE_MARGIN * jnp.abs(best_face) + margin
    gap, n, point = (jnp.where(crossing, x, y) for x, y in zip(edge, face, strict=True))
    normal = jnp.broadcast_to(matvec(R_WA, n[0]), point.shape)
    return Touch(gap, normal, p_WA + matvec(R_WA, point))


def separations(a: Array, b: Array, t: Array, C: Array) -> tuple[Array, Array]:
    """How far each axis holds the boxes apart [m]: faces of A and B (6,); edge × edge (9,), −inf if none."""
    # sep(L) = |t·L| − Σ aₖ |L·eₖ| − Σ bₖ |L·cₖ|,  L unit
    ea, eb = edge_pairs(C)
    L = cross(ea, eb)
    sine2 = dot(L, L)
    L = L / jnp.sqrt(jnp.where(sine2 > NO_AXIS, sine2, 1))[:, None]
    axes = jnp.concatenate([jnp.eye(3, dtype=C.dtype), transpose(C), L])
    on_a, on_b = jnp.abs(axes), jnp.abs(vecmat(axes, C))
    sep = jnp.abs(dot(axes, t)) - dot(on_a, a) - dot(on_b, b)
    like_face = (on_a[6:] > FACE_CONE) | (on_b[6:] > FACE_CONE)
    spans = (sine2 > NO_AXIS) & ~(like_face[:, 0] | like_face[:, 1] | like_face[:, 2])
    return sep[:6], jnp.where(spans, sep[6:], -jnp.inf)


def edge_pairs(C: Array) -> tuple[Array, Array]:
    """The nine pairs of edge directions, of A (9, 3) and of B (9, 3)."""
    ea = jnp.repeat(jnp.eye(3, dtype=C.dtype), 3, axis=0)
    return ea, jnp.concatenate([transpose(C)] * 3)


def touch_faces(a: Array, b: Array, t: Array, C: Array, sep: Array, margin: Array) -> tuple[Array, Touch]:
    """The best face axis holds the boxes this far apart; the opposite face, clipped to the one there."""
    table_a, table_b = face_table(a, jnp.zeros_like(t), jnp.eye(3, dtype=t.dtype)), face_table(b, t, C)
    best_a, row_a = pick(sep[:3], table_a)
    best_b, row_b = pick(sep[3:], table_b)
    on_b = best_b > best_a + margin
    ref = face_of(jnp.where(on_b, row_b, row_a))
    other = facing(jnp.where(on_b, table_a, table_b), ref.n)
    to_b = sign(dot(ref.n, t))
    n = ref.n * to_b
    out = jnp.where(on_b, -n, n)
    # frame of the reference face: origin in its middle, rows of F along its edges and out of it
    origin, F = ref.centre + out * ref.half[0], jnp.stack([ref.u, ref.v, out])
    middle = other.centre - other.n * (sign(dot(other.n, out)) * other.half[0])
    e1, e2 = matvec(F, other.u) * other.half[1], matvec(F, other.v) * other.half[2]
    points, there = clip_face(ref.half[1:], matvec(F, middle - origin), e1, e2)
    hint = stop_gradient(matvec(F, jnp.array(HINT, t.dtype)))
    x, exists = spread(points, there, hint[:2], to_b, ref.half[1:])
    halfway = jnp.concatenate([x[:, :2], x[:, 2:] / 2], -1)
    gap = jnp.where(exists, x[:, 2], ABSENT)
    return jnp.maximum(best_a, best_b), Touch(gap, n[None], origin + vecmat(halfway, F))


def touch_edges(a: Array, b: Array, t: Array, C: Array, sep: Array) -> tuple[Array, Touch]:
    """The best edge axis holds the boxes this far apart; where the two edges on it come closest."""
    ea, eb = edge_pairs(C)
    which_b = jnp.concatenate([jnp.eye(3, dtype=t.dtype)] * 3)
    best, row = pick(sep, jnp.concatenate([ea, eb, which_b], -1))
    u, v, axis_b = row[0:3], row[3:6], row[6:9]
    n = unit(cross(u, v), u)
    n = n * sign(dot(n, t))
    # of the four edges along u, the one farthest towards B; of those along v, the one farthest towards A
    p = a * sign(n) * (1 - u)
    q = t - matvec(C, b * sign(vecmat(n, C)) * (1 - axis_b))
    p, q = closest_of_segments(p, u, dot(a, u), q, v, dot(b, axis_b), jnp.zeros_like(best))
    gap = dot(n, q - p)
    # edges apart whose closest points do not face each other along n pass by each other
    astray = norm(stop_gradient(q - p - gap * n)) > MARGIN * (dot(a, u) + dot(b, axis_b))
    first = jnp.where((gap > 0) & astray, ABSENT, gap)
    gaps = jnp.stack([first] + [jnp.full_like(gap, ABSENT)] * 3)
    return best, Touch(gaps, n[None], jnp.broadcast_to((p + q) / 2, (4, 3)))
