"""Scenes: what is kept, what is framed, what is refused."""

import numpy as np
import pytest

from backflip.geometry import Box, Capsule, Plane, Sphere
from backflip.view.scene import Forces, Part, Scene, frame, thin


def still(T: int = 2, n: int = 1, dt: float = 0.01, parts: tuple[Part, ...] = ()) -> Scene:
    """n bodies at rest at the origin."""
    return Scene(parts, np.zeros((T, n, 3)), np.tile(np.eye(3), (T, n, 1, 1)), dt * np.arange(T))


def test_thinning_keeps_both_ends_and_the_asked_rate() -> None:
    thinned = thin(still(T=1001, dt=0.001), fps=50)
    assert thinned.times[0] == 0 and thinned.times[-1] == 1.0
    np.testing.assert_allclose(np.diff(thinned.times), 0.02, atol=1e-9)
    assert len(thinned.p_WB) == len(thinned.R_WB) == 51


def test_thinning_leaves_a_slow_recording_as_it_is() -> None:
    assert len(thin(still(T=7, dt=0.1), fps=50).times) == 7


def test_thinning_loses_no_push() -> None:
    scene = still(T=101, dt=0.001)
    f, p = np.zeros((101, 1, 3)), np.zeros((101, 1, 3))
    f[33], p[33] = [0, 0, 600], [1, 2, 3]  # one step of 1 ms
    thinned = thin(Scene((), scene.p_WB, scene.R_WB, scene.times, Forces(f, p)), fps=50)
    assert thinned.forces is not None
    np.testing.assert_allclose(thinned.forces.f[:, 0, 2], [0, 0, 30, 0, 0, 0])
    np.testing.assert_allclose(thinned.forces.p[2, 0], [1, 2, 3])


def test_a_scene_without_forces_stays_without() -> None:
    assert thin(still(T=7), fps=50).forces is None


def test_a_single_moment_is_a_scene() -> None:
    assert len(thin(still(T=1), fps=50).times) == 1


def test_the_frame_holds_every_part_at_every_time() -> None:
    scene = still(T=3, n=2, parts=(Part(Plane, (0, 0, 0)), Part(Sphere, (0.5, 0, 0), 0)))
    scene.p_WB[:, 0, 0] = [-2, 0, 4]
    centre, half = frame(scene)
    np.testing.assert_allclose(centre, [1, 0, 0])
    np.testing.assert_allclose(half, [3.5, 0.5, 0.5])


def test_a_part_off_its_body_turns_with_it() -> None:
    scene = still(parts=(Part(Sphere, (0.0, 0, 0), 0, p_CS=(1, 0, 0)),))
    scene.R_WB[:, 0] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]  # a quarter turn about z
    np.testing.assert_allclose(frame(scene)[0], [0, 1, 0])


def test_the_frame_of_nothing_is_still_a_view() -> None:
    assert (frame(still(n=0, parts=(Part(Plane, (0, 0, 0)),)))[1] > 0).all()


@pytest.mark.parametrize(
    ("part", "reach"),
    [
        (Part(Sphere, (0.3, 0, 0)), 0.3),
        (Part(Box, (2, 3, 6)), 3.5),
        (Part(Capsule, (0.1, 0.4, 0)), 0.3),
        (Part(Plane, (0, 0, 0)), 0.0),
    ],
)
def test_reach_is_the_farthest_point(part: Part, reach: float) -> None:
    assert part.reach == pytest.approx(reach)


def test_what_does_not_fit_is_refused_by_name() -> None:
    good = still(T=3)
    with pytest.raises(ValueError, match="times has shape"):
        Scene((), good.p_WB, good.R_WB, good.times[:2])
    with pytest.raises(ValueError, match="p_WB has numbers that are not finite"):
        Scene((), good.p_WB * np.nan, good.R_WB, good.times)
    with pytest.raises(ValueError, match=r"forces\.p has shape"):
        Scene((), good.p_WB, good.R_WB, good.times, Forces(np.zeros((3, 2, 3)), np.zeros((3, 1, 3))))
    with pytest.raises(ValueError, match="times must rise"):
        Scene((), good.p_WB, good.R_WB, good.times[::-1])
    with pytest.raises(ValueError, match="part 0 sits on body 5"):
        still(parts=(Part(Sphere, (1, 0, 0), body=5),))
    with pytest.raises(ValueError, match="part 0 is a 'cone'"):
        still(parts=(Part("cone", (1, 0, 0)),))  # type: ignore[arg-type]
