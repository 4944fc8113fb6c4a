"""The Spark side of the warehouse: read the trace topic, decode it, merge it, build the marts."""
