"""The serving file after a run that changed a few hours: beside a year of hours in the hourly and daily marts, and a day.

The run is a real one, with 100,000 new records (`benchmarks/models/history.py`), on the marts of one day. The year is that
day's rows, repeated for each of the 364 days before, one data file a day as the models write it.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.history import START
from benchmarks.lookup.marts import refresh
from benchmarks.models import history
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.session import session
from spark_jobs.mart_build import branches
from spark_jobs.mart_build.definitions import DBT_PROJECT
from spark_jobs.serving import files
from spark_jobs.serving.build import build
from spark_jobs.settings import Settings
from spark_jobs.settings_deployment import Spark

ROUNDS = 7
DAYS = 365
YEAR, DAY = f"{DAYS * 24:,} hours", "24 hours"
_MARTS = {
    f"marts.{file.stem}": column
    for folder, column in (("hourly", "hour"), ("daily", "day"))
    for file in sorted((DBT_PROJECT / "models" / "marts" / folder).glob("*.sql"))
}

_LAST = f"{datetime.fromtimestamp(START / 1000, UTC) + timedelta(days=history.DAYS - 1):%Y-%m-%d}"

State = dict[str, int]
"""Table (without the catalog) to the snapshot that main is to be at."""


def ratio(home: Path, console: Console) -> float:
    """The seconds of a build beside a year over those beside a day, medians."""
    with tempfile.TemporaryDirectory(prefix="year-", dir=home) as scratch:
        settings = Settings(home=Path(scratch), spark=Spark(master="local[2]"))
        spark = session("bench year", settings)
        try:
            return _race(spark, settings, _states(spark, settings, console), console)
        finally:
            spark.stop()


def _states(spark: SparkSession, settings: Settings, console: Console) -> dict[str, State]:
    """The snapshots after the run, beside either; the serving file before it is below `home/<name>`."""
    tables.ensure(spark)
    history.add_days(spark, settings, history.DAYS - 1, history.DAYS, 1)
    refresh(spark, settings, full_refresh=True)
    before = _heads(settings)
    after = {}
    for name, first in ((DAY, lambda: None), (YEAR, lambda: _repeat(spark))):
        _set(spark, before)
        first()
        built = build(settings, from_scratch=True)
        rows = sum(count for mart, count in built.rows.items() if mart in _MARTS)
        console.print(
            f"{name}: {rows:,} rows in {len(_MARTS)} hourly and daily marts, a serving file of "
            f"{built.file.stat().st_size / 1e6:.0f} MB, written from scratch in {built.seconds:.1f} s"
        )
        shutil.move(files.folder(settings), settings.home / name)
        history.add_batch(spark, settings, change_seq=2)
        refresh(spark, settings, full_refresh=False)
        after[name] = _heads(settings)
    return after


def _repeat(spark: SparkSession) -> None:
    """Add the rows of the day to each of the days before."""
    for mart, column in _MARTS.items():
        table = spark.table(f"lake.{mart}")
        step = "interval 1 day" if column == "hour" else "1"
        moved = [f"{c} - n * {step} as {c}" if c == column else c for c in table.columns]
        rows = spark.sql(
            f"select {', '.join(moved)} from lake.{mart}, (select int(id) as n from range(1, {DAYS})) "
            f"where to_date({column}) = date '{_LAST}'"
        )
        rows.writeTo(f"lake.{mart}").append()


def _heads(settings: Settings) -> State:
    catalog = lake(settings)
    names = [tables.RAW.name, tables.EVENTS.name, *branches.audited_tables(catalog)]
    return {name: branches.heads(catalog, name)["main"] for name in names}


def _set(spark: SparkSession, state: State) -> None:
    for table, snapshot in state.items():
        spark.sql(f"call lake.system.set_current_snapshot('lake.{table}', {snapshot})")


def _race(spark: SparkSession, settings: Settings, after: dict[str, State], console: Console) -> float:
    seconds: dict[str, list[float]] = {name: [] for name in after}
    for turn in range(-1, ROUNDS):
        for name in list(after)[:: 1 if turn % 2 else -1]:
            _set(spark, after[name])
            files.remove_all(settings)
            shutil.copytree(settings.home / name, files.folder(settings), symlinks=True)
            built = build(settings)
            if turn >= 0:
                seconds[name].append(built.seconds)
        if turn == 0:
            console.print(
                f"the run changed {len(built.rows)} tables: {sum(built.rows.values()):,} rows and files"
            )
    for name, each in seconds.items():
        console.print(
            f"a build beside {name}: {statistics.median(each):.2f} s "
            f"({min(each):.2f} to {max(each):.2f}, {len(each)} rounds)"
        )
    return statistics.median(seconds[YEAR]) / statistics.median(seconds[DAY])
