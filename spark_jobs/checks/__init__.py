"""Checks of the data and of the pipeline: what is measured, against which limit, and the results."""
