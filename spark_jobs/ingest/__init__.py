"""Exactly-once ingestion: positions in the source, the plan of a run, and publishing it."""
