"""`make bench-clients`: the project's own client beside the library of rocketmq-client-python."""
