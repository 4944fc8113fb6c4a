"""What a cycle of the pipeline costs: with a thousand new trace messages, and with none."""
