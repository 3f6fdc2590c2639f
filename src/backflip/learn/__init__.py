"""Simulations as functions to optimise.

comes in    Scheme, Model, State, a policy, a cost
goes out    trajectories, trained policies, identified parameters, how healthy a gradient is
may touch   math, solve, geometry, model, dynamics, sense, control, keep
never knows pictures, experiments
"""

from backflip.learn.between import clip, cut, fade, limit
from backflip.learn.certainty import Certainty
from backflip.learn.health import Health, health
from backflip.learn.identify import Identified, identify
from backflip.learn.optimise import return_to_best, scale_by_error
from backflip.learn.parameters import positive, within
from backflip.learn.recording import Recording, windows
from backflip.learn.robust import Cauchy, Huber, Square
from backflip.learn.rollout import Trajectory, rollout
from backflip.learn.train import Log, train

__all__ = [
    "Cauchy",
    "Certainty",
    "Health",
    "Huber",
    "Identified",
    "Log",
    "Recording",
    "Square",
    "Trajectory",
    "clip",
    "cut",
    "fade",
    "health",
    "identify",
    "limit",
    "positive",
    "return_to_best",
    "rollout",
    "scale_by_error",
    "train",
    "windows",
    "within",
]
