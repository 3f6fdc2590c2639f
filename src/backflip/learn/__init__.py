"""Simulations as functions to optimise.

comes in    Scheme, Model, State, a policy, a cost
goes out    trajectories, trained policies, how healthy a gradient is
may touch   math, solve, geometry, model, dynamics, sense, control, keep
never knows pictures, experiments
"""

from backflip.learn.between import clip, cut, fade
from backflip.learn.health import Health, health
from backflip.learn.optimise import return_to_best, scale_by_error
from backflip.learn.rollout import Trajectory, rollout
from backflip.learn.train import Log, train

__all__ = [
    "Health",
    "Log",
    "Trajectory",
    "clip",
    "cut",
    "fade",
    "health",
    "return_to_best",
    "rollout",
    "scale_by_error",
    "train",
]
