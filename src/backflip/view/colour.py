"""The house colours, shared by replays and plots."""

PALETTE = ("#e4572e", "#2e86ab", "#f3a712", "#3a9d5d", "#8f5bd6", "#d6336c", "#17a2a2", "#8d6e4f")
"""Told apart side by side and on both white and grey; bodies and curves take them in turn."""

INK = "#24292f"
"""Text and axes."""

GROUND = "#c3ccd6"
"""Planes and other parts of the world."""

SKY = "#eef2f6"
"""Behind everything; far ground fades into it."""

STEEL = "#8d99a6"
"""What is there but touches nothing."""

FORCE = "#c2185b"
"""Arrows."""
