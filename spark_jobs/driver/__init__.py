"""A Spark driver that stays between the jobs of a cycle: starting a JVM and compiling its code costs more than a small batch."""
