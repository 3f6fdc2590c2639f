"""Speed beside XLA and MuJoCo: every figure in one run, each engine in a process of its own."""
