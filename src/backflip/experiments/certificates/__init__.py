"""Tables that certify parts of the engine: every gradient, every pair of shapes, every solver."""
