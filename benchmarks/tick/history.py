"""`python -m benchmarks.tick.history MILLIONS`: a lake with so many million records of history, and their marts."""

from __future__ import annotations

import sys

from benchmarks.models import history
from benchmarks.models.builds import build
from spark_jobs.lake import tables
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings


def main() -> None:
    settings = Settings()
    spark = session("bench tick", settings)
    tables.ensure(spark)
    history.add_days(spark, settings, history.DAYS - int(sys.argv[1]), history.DAYS, 1)
    build(spark, settings, full_refresh=True)
    spark.stop()


if __name__ == "__main__":
    main()
