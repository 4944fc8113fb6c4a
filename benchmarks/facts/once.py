"""`python -m benchmarks.facts.once` records the facts of the only cluster in the settings once, as the job `extract` does.

It prints the seconds that this took, without the start of Python, and the rows that were added, as JSON.
"""

from __future__ import annotations

import json
import time

from spark_jobs.broker_facts.record import record
from spark_jobs.settings import load_settings


def main() -> None:
    settings = load_settings()
    (cluster,) = settings.clusters
    begin = time.perf_counter()
    recorded = record(settings, cluster, "bench")
    seconds = time.perf_counter() - begin
    assert not recorded.problems, recorded.problems
    print(json.dumps({"seconds": seconds, "rows": recorded.rows}))


if __name__ == "__main__":
    main()
