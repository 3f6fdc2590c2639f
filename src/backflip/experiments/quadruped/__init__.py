"""A quadruped that learns to walk, and one whose constants are identified from its sensors."""
