"""Recompute activations instead of keeping them: the manager, the engine and the planner."""
