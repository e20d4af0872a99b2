"""Random training programs with known faults: draw, render, measure, judge."""
