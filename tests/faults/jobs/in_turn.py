"""Extractions of one user after the other, in one process: `python -m tests.faults.jobs.in_turn CLUSTER`.

IN_TURN holds their keys, `{"<case>": ["<access key>", "<secret key>"], …}`, for a cluster whose credentials are in FAULTS_…;
Spark's Python workers have those of the process's own environment. After each the process prints `<case> ended with <code>`.
"""

from __future__ import annotations

import json
import os
import sys

from spark_jobs.jobs import extract
from spark_jobs.jobs.run import run_job
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings


def main() -> None:
    cluster = sys.argv[1]
    users: dict[str, list[str]] = json.loads(os.environ.pop("IN_TURN"))
    session("in turn", Settings())
    for case, (name, secret) in users.items():
        os.environ |= {"FAULTS_ACCESS_KEY": name, "FAULTS_SECRET_KEY": secret}
        code = run_job(lambda: extract.main(["--cluster", cluster]))
        print(f"{case} ended with {code}", flush=True)


if __name__ == "__main__":
    main()
