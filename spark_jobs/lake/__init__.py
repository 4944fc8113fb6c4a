"""The Iceberg lake: tables, catalog, Spark session, publication of commits, and committed offsets."""
