"""Maths that knows no events. Results are plain numbers; what cannot be estimated is None."""
