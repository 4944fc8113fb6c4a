"""The serving files: a publication as DuckDB files, one for SQL and the look-up and one for dashboards, without Spark."""
