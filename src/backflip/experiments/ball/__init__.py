"""A ball thrown at a target: Degrave et al., section 2.1.1."""
