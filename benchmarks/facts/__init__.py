"""What the facts of the brokers cost, beside an extraction."""
