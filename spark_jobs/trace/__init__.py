"""Trace records: what each client writes (layouts), decoding them, merging them into events."""
