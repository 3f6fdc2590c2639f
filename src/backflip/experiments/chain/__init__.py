"""A chain that a ball strikes, and what it tells of its masses: Belbute-Peres et al., Figure 1."""
