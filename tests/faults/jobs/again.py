"""A job whose disk is full, and once more when there is room: `python -m tests.faults.jobs.again BALLAST JOB ARGUMENTS…`.

Between the two runs it deletes the file BALLAST, and prints `the first ended with <code>`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from spark_jobs.jobs.run import run_job
from tests.faults.jobs.job import JOBS


def main() -> int:
    ballast, name, *arguments = sys.argv[1:]
    code = run_job(lambda: JOBS[name].main(arguments))
    print(f"the first ended with {code}", file=sys.stderr, flush=True)
    Path(ballast).unlink()
    return run_job(lambda: JOBS[name].main(arguments))


if __name__ == "__main__":
    sys.exit(main())
