"""The Iceberg lake: its tables, its catalog, the Spark session, and how commits are published with their offsets."""
