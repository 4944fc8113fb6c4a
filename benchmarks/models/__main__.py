"""`make bench-models`: 100,000 new records at 10 M records of history and at 1 M; the percentiles; the job as a process.

CPU time and bytes read are those of the whole JVM: dbt's own work, which is Python, is not in them. Exits with 1 if a
target is missed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import targets
from benchmarks.meter import Cost
from benchmarks.models import history, percentiles
from benchmarks.models.builds import State, build, heads, race, set_main, with_batch
from spark_jobs.lake import planning, tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.session import session
from spark_jobs.mart_build.dbt import Build
from spark_jobs.settings import PROJECT, Settings, load_settings
from spark_jobs.settings_deployment import Spark

ROUNDS = 5
MANY, FEW = f"{history.DAYS} M records of history", "1 M"
AT_MOST = {
    "incremental_10m_vs_1m": 1.2,
    "incremental_bytes_10m_vs_1m": 1.2,
    "percentile_value_error": 0.01,
    "percentile_error_ms_below_128": 0,
    "job_seconds": 180,
}
_console = Console(width=120, highlight=False)


def main() -> int:
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="models-", dir=home) as scratch:
        settings = Settings(home=Path(scratch), spark=Spark(master="local[2]"))
        spark = session("bench models", settings)
        states = {
            name: with_batch(spark, settings, each, history.BATCH, _console)
            for name, each in _histories(spark, settings).items()
        }
        cases = {name: (each, planning.MOST_FEW + 1) for name, each in states.items()}
        costs = race(spark, settings, cases, ROUNDS, _console)
        set_main(spark, states[MANY])
        _tell_what_takes_long(build(spark, settings))
        found = percentiles.errors(spark)
        set_main(spark, states[MANY])
        spark.stop()
        seconds = _as_a_process(settings)
    return _judge(costs, found, seconds)


def _histories(spark: SparkSession, settings: Settings) -> dict[str, State]:
    """The lake with the marts of one day's records, and of ten days'."""
    catalog = lake(settings)
    tables.ensure(spark)
    begin = time.perf_counter()
    last = history.DAYS - 1
    built: dict[str, State] = {}
    for number, (name, first, end) in enumerate([(FEW, last, last + 1), (MANY, 0, last)], start=1):
        history.add_days(spark, settings, first, end, number)
        build(spark, settings, full_refresh=True)
        built[name] = heads(catalog)
    _console.print(
        f"{spark.table(tables.EVENTS.full_name).count():,} records of {history.DAYS} days, and their marts, written in "
        f"{time.perf_counter() - begin:.0f} s"
    )
    return built


def _tell_what_takes_long(built: Build) -> None:
    """Print the seconds of dbt's nodes by kind, and the longest; four of them run at a time."""
    for kind in ("model", "test", "seed"):
        nodes = sorted((node for node in built.nodes if node.kind == kind), key=lambda node: -node.seconds)
        longest = ", ".join(f"{node.name[:40]} {node.seconds:.1f}" for node in nodes[:5])
        _console.print(
            f"{len(nodes)} {kind}s: {sum(node.seconds for node in nodes):.0f} s; the longest: {longest}"
        )


def _as_a_process(settings: Settings) -> float:
    """The seconds of one `python -m spark_jobs.jobs.marts` over the batch, JVM start included."""
    environment = os.environ | {
        "TRACE_HOME": str(settings.home),
        "TRACE_SPARK__MASTER": "local[2]",
        "PYTHONPATH": str(PROJECT),
    }
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.jobs.marts"], env=environment, capture_output=True, text=True
    )
    seconds = time.perf_counter() - begin
    assert done.returncode == 0, done.stderr
    _console.print(
        f"the job as a process, its last words: {done.stderr.strip().splitlines()[-1]}", markup=False
    )
    return seconds


def _judge(costs: dict[str, list[Cost]], found: list[percentiles.Found], seconds: float) -> int:
    table = Table(title="an incremental run of the marts", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("at")
    for heading in ("CPU s, median", "min", "max", "MB read", "wall s"):
        table.add_column(heading, justify="right")
    cpu = {name: statistics.median(c.cpu for c in each) for name, each in costs.items()}
    read = {name: statistics.median(c.read for c in each) for name, each in costs.items()}
    for name, each in costs.items():
        spread = (cpu[name], min(c.cpu for c in each), max(c.cpu for c in each))
        wall = statistics.median(c.wall for c in each)
        table.add_row(name, *(f"{s:.1f}" for s in spread), f"{read[name] / 1e6:.1f}", f"{wall:.1f}")
    _console.print(table)
    errors = Table(title="percentiles beside the exact ones", title_justify="left", box=box.SIMPLE_HEAD)
    errors.add_column("mart")
    for heading in ("percentiles", "largest, ms", "relative error", "error below 128 ms"):
        errors.add_column(heading, justify="right")
    for mart in found:
        errors.add_row(
            mart.mart,
            f"{mart.compared:,}",
            f"{mart.largest_ms:,.0f}",
            f"{mart.relative:.4f}",
            f"{mart.below:g}",
        )
    _console.print(errors)
    ratios = {
        "incremental_10m_vs_1m": cpu[MANY] / cpu[FEW],
        "incremental_bytes_10m_vs_1m": read[MANY] / read[FEW],
        "percentile_value_error": max(mart.relative for mart in found),
        "percentile_error_ms_below_128": max(mart.below for mart in found),
        "job_seconds": seconds,
    }
    return targets.report(_console, ratios, AT_MOST)


if __name__ == "__main__":
    sys.exit(main())
