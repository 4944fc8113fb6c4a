"""This process and this machine: the JVM of the job, Ctrl-C, lock files, the private folder `TRACE_HOME`."""
