"""Look up one message, or search messages, in the serving file: no Spark, no scan of all files."""
