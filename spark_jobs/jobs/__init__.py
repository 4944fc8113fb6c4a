"""The entry points: one module per job, with `main` and its arguments, and steps and output that several jobs have."""
