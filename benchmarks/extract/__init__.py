"""How fast a topic is read, side by side with other clients: `python -m benchmarks.extract`."""
