"""Watches a run: steps and readings → alerts. Pure: no clocks, files, threads or torch."""
