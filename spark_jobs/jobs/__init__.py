"""The entry points: one module per job, each with `main`, its arguments and its summary."""
