"""The entry points: one module per job, with `main` and its arguments; `run.py` and `report.py` are what all of them use."""
