"""Robots to begin with: one builder function each.

comes in    a few sizes and constants, with defaults that work
goes out    Model
may touch   the public names
never knows policies, costs, time steps
"""

from backflip.robots.arm import arm
from backflip.robots.ball import ball
from backflip.robots.dog import dog
from backflip.robots.linkages import chain, four_bar, pendulum
from backflip.robots.quadruped import quadruped
from backflip.robots.quadruped17 import quadruped17
from backflip.robots.struck_chain import struck_chain

__all__ = ["arm", "ball", "chain", "dog", "four_bar", "pendulum", "quadruped", "quadruped17", "struck_chain"]
