"""Checks of the data and of the pipeline: what is judged, by which limit, and what came of it."""
