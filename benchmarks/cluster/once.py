"""One application: extract and merge the first cluster of the settings, then the second; print the seconds of the second."""

from __future__ import annotations

import json
import time

from spark_jobs.jobs.extract import extract_and_report
from spark_jobs.jobs.merge import merge_all
from spark_jobs.lake import tables
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings


def main() -> None:
    settings = Settings()
    spark = session("bench cluster", settings)
    tables.ensure(spark)
    seconds = {}
    for cluster in settings.clusters:
        begin = time.perf_counter()
        done, written = extract_and_report(spark, cluster, settings, "bench")
        assert not done.failures, done.failures
        extracted = time.perf_counter()
        records = merge_all(spark, settings, "bench").records
        merged = time.perf_counter()
        seconds = {"extract": extracted - begin, "merge": merged - extracted}
        assert records > written.messages > 0
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
