"""Policies: networks that read observations and drive actuators.

comes in    sizes and a random key; then an observation and a memory
goes out    u and the next memory
may touch   math
never knows models, states, costs, time steps
"""

from backflip.control.networks import GRU, LSTM, MLP, Elman
from backflip.control.policy import Policy
from backflip.control.signals import clock, open_loop

__all__ = ["GRU", "LSTM", "MLP", "Elman", "Policy", "clock", "open_loop"]
