"""How fast bodies are decoded, beside a floor and a plain decoder: `python -m benchmarks.decode`."""
