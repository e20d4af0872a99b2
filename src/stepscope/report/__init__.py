"""Views of a summary. They show numbers and compute none."""
