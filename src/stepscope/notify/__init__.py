"""Tells others: alerts to sinks, metrics to exporters."""
