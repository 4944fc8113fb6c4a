"""A real RocketMQ on loopback and traffic from the official Java client, for demo, tests and benchmarks."""
