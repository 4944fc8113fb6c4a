"""What the brokers know beside the traces, asked with each extraction: subscriptions, offsets, topics, clients."""
