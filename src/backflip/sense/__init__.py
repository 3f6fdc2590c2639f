"""From state to observation.

comes in    Model, State
goes out    one flat vector of sensor readings
may touch   math, lanes, model, dynamics
never knows policies, costs, time steps
"""

from backflip.sense.observe import observe, reading_sizes

__all__ = ["observe", "reading_sizes"]
