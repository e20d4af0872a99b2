"""The only place that wires rooms together."""
