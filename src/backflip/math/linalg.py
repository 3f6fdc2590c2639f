"""Products and inverses of small matrices; leading axes broadcast.

Products are single contractions, not sums written out: XLA compiles a step in a third of the time, and a
compiler that works on scalars unrolls a contraction just as well. Those that a step asks for a hundred times
are traced once per shape (jit), and become part of whoever calls them (inline).
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient

EPSILON = np.zeros((3, 3, 3))
"""Levi-Civita: (a × b)ᵢ = Σ εᵢⱼₖ aⱼ bₖ"""
for _i, _j, _k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    EPSILON[_i, _j, _k], EPSILON[_i, _k, _j] = 1, -1


def dot(a: Array, b: Array) -> Array:
    """a · b over the last axis."""
    return jnp.sum(a * b, -1)


@partial(jax.jit, inline=True)
def cross(a: Array, b: Array) -> Array:
    """a × b of 3-vectors."""
    ab = outer(a, b)
    return ab.reshape(*ab.shape[:-2], 9) @ jnp.asarray(EPSILON.transpose(1, 2, 0).reshape(9, 3), ab.dtype)


def skew(a: Array) -> Array:
    """The matrix â with â b = a × b."""
    return (a @ jnp.asarray(EPSILON.transpose(1, 0, 2).reshape(3, 9), a.dtype)).reshape(*a.shape, 3)


def outer(a: Array, b: Array) -> Array:
    """a bᵀ."""
    return a[..., :, None] * b[..., None, :]


def transpose(A: Array) -> Array:
    """Aᵀ over the last two axes."""
    return jnp.swapaxes(A, -1, -2)


@partial(jax.jit, inline=True)
def matvec(A: Array, x: Array) -> Array:
    """A x."""
    return jnp.einsum("...ij,...j->...i", A, x)


@partial(jax.jit, inline=True)
def vecmat(x: Array, A: Array) -> Array:
    """Aᵀ x: the components of x along the columns of A."""
    return jnp.einsum("...ij,...i->...j", A, x)


def matmul(A: Array, B: Array) -> Array:
    """A B."""
    return A @ B


def gram(A: Array) -> Array:
    """A Aᵀ."""
    return _mirrored(A, A)


def turned(R: Array, A: Array) -> Array:
    """R A Rᵀ of symmetric A."""
    return _mirrored(matmul(R, A), R)


def _mirrored(A: Array, B: Array) -> Array:
    """A Bᵀ that is known to be symmetric: the lower half is the upper, so that it need not be computed."""
    C = matmul(A, transpose(B))
    return jnp.where(np.triu(np.ones(C.shape[-2:], bool)), C, transpose(C))


def inverse3(A: Array) -> Array:
    """A⁻¹ of 3x3 matrices by cofactors.

    A is scaled to largest element 1 first: A³ of a millimetre's or a hundred metres' inertia leaves float32.
    Of a symmetric A the smallest principal value must be several roundings of the largest: a smaller one is
    lost in the elements of A itself, and no formula brings it back.
    """
    # A⁻¹ = s (s A)⁻¹ whatever s: it needs no gradient
    largest = stop_gradient(jnp.max(jnp.abs(A), (-2, -1), keepdims=True))
    s = 1 / jnp.where(largest > 0, largest, 1)
    B = A * s
    a, b, c = B[..., 0, :], B[..., 1, :], B[..., 2, :]
    columns = jnp.stack([cross(b, c), cross(c, a), cross(a, b)], -1)
    return columns * (1 / dot(a, columns[..., :, 0]))[..., None, None] * s


def solve3(A: Array, b: Array) -> Array:
    """A⁻¹ b of 3x3 matrices near the identity, by Cramer's rule."""
    x, y, z = A[..., :, 0], A[..., :, 1], A[..., :, 2]
    yz = cross(y, z)
    components = [dot(b, yz), dot(b, cross(z, x)), dot(b, cross(x, y))]
    return jnp.stack(components, -1) * (1 / dot(x, yz))[..., None]


def whiten(A: Array) -> Array:
    """Lower W with A⁻¹ = Wᵀ W, the inverse of Cholesky's factor, of small symmetric positive definite A."""
    n = A.shape[-1]
    if n == 1:
        return 1 / jnp.sqrt(A)
    k = n // 2
    P, Q, S = A[..., :k, :k], A[..., :k, k:], A[..., k:, k:]
    # A = [P Q; Qᵀ S], W = [W_P 0; −W_C Eᵀ W_P  W_C],  E = W_P Q,  C = S − Eᵀ E
    W_P = whiten(P)
    E = matmul(W_P, Q)
    W_C = whiten(S - gram(transpose(E)))
    below = -matmul(matmul(W_C, transpose(E)), W_P)
    top = jnp.concatenate([W_P, jnp.zeros_like(Q)], -1)
    return jnp.concatenate([top, jnp.concatenate([below, W_C], -1)], -2)


def inverse(A: Array) -> Array:
    """A⁻¹ of a matrix (n, n) that needs no pivoting, by Gauss and Jordan.

    Every turn eliminates the first row and column and puts them last: after n turns all is in its place.
    """

    def turn(A: Array, _: None) -> tuple[Array, None]:
        # [a r; c S] -> [S − c r/a  −c/a; r/a  1/a]
        p, row, column = 1 / A[:1, :1], A[:1, 1:], A[1:, :1]
        row = row * p
        left = jnp.concatenate([A[1:, 1:] - column * row, row])
        right = jnp.concatenate([-column * p, p])
        return jnp.concatenate([left, right], -1), None

    return jax.lax.scan(turn, A, None, length=A.shape[-1])[0]
