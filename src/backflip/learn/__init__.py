"""Simulations as functions to optimise.

comes in    Scheme, Model, State, a policy, a cost
goes out    trajectories, trained policies, identified parameters, how healthy a gradient is
may touch   math, solve, geometry, model, dynamics, sense, control, storage
never knows pictures, experiments
"""

from backflip.learn import bounds, gradients
from backflip.learn.certainty import Certainty
from backflip.learn.fit_quality import FitQuality
from backflip.learn.health import Health, health
from backflip.learn.identify import Identified, identify
from backflip.learn.recording import Recording
from backflip.learn.residual_cost import Cauchy, Huber, Square
from backflip.learn.rollout import Trajectory, rollout
from backflip.learn.train import Log, train
from backflip.learn.transforms import return_to_best, scale_by_error

__all__ = [
    "Cauchy",
    "Certainty",
    "FitQuality",
    "Health",
    "Huber",
    "Identified",
    "Log",
    "Recording",
    "Square",
    "Trajectory",
    "bounds",
    "gradients",
    "health",
    "identify",
    "return_to_best",
    "rollout",
    "scale_by_error",
    "train",
]
