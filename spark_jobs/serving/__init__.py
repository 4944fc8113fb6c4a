"""The serving file: the marts of one publication in one DuckDB file, for readers without Spark."""
