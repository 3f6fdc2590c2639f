"""An arm that reaches for targets: Degrave et al., section 3.2."""
