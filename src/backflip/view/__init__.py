"""Pictures of what happened: replays as one HTML page, frames and plots as images.

comes in    a Model and a trajectory, or a Scene; plain numbers to plot
goes out    HTML pages, images and films
may touch   math, storage, geometry, model, dynamics (for contact forces); files
never knows policies, how the motion was made
"""

from backflip.view.colour import PALETTE
from backflip.view.frames import save_frames
from backflip.view.page import Curve
from backflip.view.replay import save_replay, save_scene, scene_of
from backflip.view.scene import Forces, Part, Scene

__all__ = [
    "PALETTE",
    "Curve",
    "Forces",
    "Part",
    "Scene",
    "save_frames",
    "save_replay",
    "save_scene",
    "scene_of",
]
