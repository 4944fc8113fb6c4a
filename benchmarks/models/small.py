"""`python -m benchmarks.models.small`: small builds at 1 M records of history, planned for few rows and for many.

CPU time is that of the whole JVM, in a warm session. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks import targets
from benchmarks.history import MESSAGES
from benchmarks.models import history
from benchmarks.models.builds import State, build, heads, race, with_batch
from spark_jobs.lake import planning, tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings, load_settings
from spark_jobs.settings_deployment import Spark

ROUNDS = 3
RECORDS = (1_000, planning.MOST_FEW)
MANY, FEW = "{:,} records, planned for many", "{:,} records, planned for few"
AT_MOST = {f"planned_for_few_{records}": 1.0 for records in RECORDS}
_console = Console(width=120, highlight=False)


def main() -> int:
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="small-", dir=home) as scratch:
        settings = Settings(home=Path(scratch), spark=Spark(master="local[2]"))
        spark = session("bench small", settings)
        tables.ensure(spark)
        history.add_days(spark, settings, history.DAYS - 1, history.DAYS, 1)
        build(spark, settings, full_refresh=True)
        base = heads(lake(settings))
        cases: dict[str, tuple[State, int]] = {}
        for records in RECORDS:
            batch = with_batch(spark, settings, base, records // (3 * MESSAGES), _console)
            cases[MANY.format(records)] = (batch, planning.MOST_FEW + 1)
            cases[FEW.format(records)] = (batch, planning.MOST_FEW)
        costs = race(spark, settings, cases, ROUNDS, _console)
        spark.stop()
    cpu = {name: statistics.median(cost.cpu for cost in each) for name, each in costs.items()}
    ratios = {
        f"planned_for_few_{records}": cpu[FEW.format(records)] / cpu[MANY.format(records)]
        for records in RECORDS
    }
    return targets.report(_console, ratios, AT_MOST)


if __name__ == "__main__":
    sys.exit(main())
