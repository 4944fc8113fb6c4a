"""`make bench-models`: what an incremental run of the marts costs, and how exact its percentiles are."""
