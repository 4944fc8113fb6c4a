"""Lakes of several sizes, as snapshots of one: each has the newest records of the next one, and its own marts."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.history import CHUNK
from benchmarks.models import history
from benchmarks.models.builds import State, build, heads
from benchmarks.scale.traffic import Traffic, trace_messages
from benchmarks.scale.used import Gauge, Used
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.settings import Settings


@dataclass(frozen=True)
class Lake:
    """A lake before the batch.

    Attributes:
        millions: of records, as asked for.
        records: that it has.
        state: the snapshots of its tables.
        refresh: what the build of all its marts used; None without marts.
    """

    millions: float
    records: int
    state: State
    refresh: Used | None


def build_lakes(
    spark: SparkSession,
    settings: Settings,
    traffic: Traffic,
    millions: list[float],
    gauge: Gauge,
    console: Console,
    with_marts: bool,
) -> list[Lake]:
    """The lakes of these sizes, which rise. Their records are written directly, in commits of at most a million."""
    tables.ensure(spark)
    built: list[Lake] = []
    done = 0
    for change_seq, each in enumerate(millions, start=1):
        begin, end = time.perf_counter(), trace_messages(each)
        for first in range(done, end, CHUNK):
            rows = traffic.newest(spark, first, min(end, first + CHUNK))
            history.append(spark, settings, rows, traffic.positions, change_seq)
        done = end
        records = spark.table(tables.EVENTS.full_name).count()
        console.print(f"{records:,} records are in the lake after {time.perf_counter() - begin:.0f} s more")
        used = None
        if with_marts:
            _, used = gauge.measure(lambda: build(spark, settings, full_refresh=True))
            console.print(f"their marts: {used.cpu:.0f} s of CPU, {used.wall:.0f} s on the clock")
        built.append(Lake(each, records, heads(lake(settings)), used))
    return built
