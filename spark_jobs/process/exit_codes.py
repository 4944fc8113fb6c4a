"""Exit codes of jobs beside those of `jobs.run`; the DAGs read them, so this file imports nothing."""

from __future__ import annotations

# Of a job without Spark: the Spark job has work to do.
WORK = 3
