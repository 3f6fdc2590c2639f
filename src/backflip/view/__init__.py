"""Pictures of what happened: replays as one HTML page, plots as images.

comes in    a Model and a trajectory, or a Scene; plain numbers to plot
goes out    HTML pages and image files
may touch   math, geometry, model; files
never knows solvers, policies, how the motion was made
"""

from backflip.view.colour import PALETTE
from backflip.view.replay import save_replay, save_scene, scene_of
from backflip.view.scene import Part, Scene

__all__ = ["PALETTE", "Part", "Scene", "save_replay", "save_scene", "scene_of"]
