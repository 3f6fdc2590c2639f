"""Meshes as hulls: what is not convex is cut into pieces that are, by CoACD."""

from pathlib import Path

import numpy as np

from backflip.geometry.hulls import Hull
from backflip.geometry.outline import MAX_VERTICES


def hulls_of_mesh(
    mesh: str | Path | tuple[np.ndarray, np.ndarray],
    *,
    hulls: int | None = None,
    concavity: float = 0.05,
    scale: float = 1.0,
    seed: int = 0,
) -> list[Hull]:
    """Hulls that together fill a mesh, for add_shape(); they share the mesh's frame.

    mesh: a file that trimesh reads (.obj, .stl, .ply, .glb, ...), or corners (v, 3) and triangles (t, 3)
    hulls: at most so many; as many as `concavity` wants where not given
    concavity: how far a hull may differ from its piece of the mesh, in parts of the mesh's size; 0.01 to 1
    scale: [m] length of the mesh's unit
    Every hull has at most 32 corners. Needs CoACD: pip install "backflip[mesh]".
    """
    try:
        import coacd
    except ImportError as error:
        raise ValueError('hulls_of_mesh: CoACD is not there; pip install "backflip[mesh]"') from error
    corners, triangles = _corners_and_triangles(mesh)
    coacd.set_log_level("error")
    pieces = coacd.run_coacd(
        coacd.Mesh(corners * scale, triangles),
        threshold=concavity,
        max_convex_hull=hulls or -1,
        decimate=True,
        max_ch_vertex=MAX_VERTICES,
        seed=seed,
    )
    return [Hull(np.asarray(points, float)) for points, _ in pieces]


def _corners_and_triangles(mesh: str | Path | tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(v, 3) and (t, 3) of a mesh or its file."""
    if isinstance(mesh, str | Path):
        import trimesh

        if not Path(mesh).is_file():
            raise ValueError(f'hulls_of_mesh: there is no file "{mesh}"; give the path of a mesh')
        try:
            loaded = trimesh.load_mesh(mesh)
            mesh = (loaded.vertices, loaded.faces)
        except Exception as error:  # every format has its own
            raise ValueError(f'hulls_of_mesh: "{mesh}" cannot be read as a mesh ({error})') from error
    corners, triangles = np.asarray(mesh[0], float), np.asarray(mesh[1], int)
    if corners.ndim != 2 or corners.shape[1] != 3 or not np.isfinite(corners).all():
        raise ValueError(f"hulls_of_mesh: corners of shape {corners.shape}; give (v, 3) finite numbers")
    if triangles.ndim != 2 or triangles.shape[1] != 3:
        raise ValueError(
            f"hulls_of_mesh: triangles of shape {triangles.shape}; give (t, 3) corners by number"
        )
    if not len(triangles):
        raise ValueError("hulls_of_mesh: there are no triangles; give a surface that closes")
    if not 0 <= triangles.min() <= triangles.max() < len(corners):
        raise ValueError("hulls_of_mesh: a triangle names a corner that there is not; count from 0")
    return corners, triangles
