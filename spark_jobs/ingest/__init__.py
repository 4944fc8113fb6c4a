"""Ingestion, exactly once: plan a run from the committed offsets, read it, publish it."""
