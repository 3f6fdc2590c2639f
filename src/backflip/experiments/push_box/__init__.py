"""A box that friction holds is pushed to a target."""
