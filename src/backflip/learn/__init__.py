"""Simulations as functions to optimise.

comes in    Scheme, Model, State, a policy
goes out    trajectories
may touch   math, solve, geometry, model, dynamics, sense
never knows files, clocks, pictures
"""

from backflip.learn.rollout import Trajectory, rollout

__all__ = ["Trajectory", "rollout"]
