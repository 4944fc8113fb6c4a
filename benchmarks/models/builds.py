"""Builds of the marts in a warm session, each from a state of the lake's tables that was recorded before."""

from __future__ import annotations

from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.history import MESSAGES
from benchmarks.meter import Cost, Meter
from benchmarks.models import history
from spark_jobs.checks.check import Run
from spark_jobs.jobs.marts import gate
from spark_jobs.lake import planning, tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import positions_at, read_offsets
from spark_jobs.mart_build import branches, dbt
from spark_jobs.mart_build.build import build_and_publish
from spark_jobs.mart_build.dbt import Build
from spark_jobs.mart_build.inputs import Published, inputs_now
from spark_jobs.settings import Settings

State = dict[str, int]
"""Table (`marts.<name>`) to the snapshot that main is to be at."""


def heads(catalog: Catalog, names: list[str] | None = None) -> State:
    names = names or [tables.RAW.name, tables.EVENTS.name, *branches.audited_tables(catalog)]
    return {name: branches.heads(catalog, name)["main"] for name in names}


def set_main(spark: SparkSession, state: State) -> None:
    for table, snapshot in state.items():
        spark.sql(f"call lake.system.set_current_snapshot('lake.{table}', {snapshot})")


def build(spark: SparkSession, settings: Settings, full_refresh: bool = False) -> Build:
    """What the job does between its session's start and its summary."""
    events = read_offsets(spark, settings, tables.EVENTS)
    published, definitions = Published.of(settings), dbt.definitions(settings.limits, settings.home / "dbt")
    inputs = inputs_now(settings, events, published, definitions, full_refresh=full_refresh)
    assert inputs is not None
    assert (inputs.change_seq_from is None) == full_refresh
    before = positions_at(settings, published.change_seq_to) if published else None
    run = Run(settings, datetime.now(UTC), spark, inputs.watermarks, compared_from=before)
    audit = gate(run, "bench", events.head)
    built = build_and_publish(spark, lake(settings), inputs, settings.home / "dbt", audit=audit)
    assert built.passed, (built.error, built.failures, built.refused)
    return built


def with_batch(
    spark: SparkSession, settings: Settings, state: State, messages: int, console: Console
) -> State:
    """The state with new trace messages that are not in the marts."""
    set_main(spark, state)
    history.add_batch(spark, settings, 3, messages)
    new = spark.table(tables.EVENTS.full_name).where("change_seq = 3").count()
    console.print(
        f"a batch: {new:,} records of {messages * MESSAGES:,} messages, {messages // 100 * MESSAGES:,} of them half a day late"
    )
    return state | heads(lake(settings), [tables.RAW.name, tables.EVENTS.name])


def race(
    spark: SparkSession,
    settings: Settings,
    cases: dict[str, tuple[State, int]],
    rounds: int,
    console: Console,
) -> dict[str, list[Cost]]:
    """What builds cost, in alternating order, after two warm ones.

    Args:
        spark: the session.
        settings: of the lake.
        cases: name to the state before a build, and the number of records for which its statements are planned.
        rounds: how many builds of each case count.
        console: of the benchmark.
    """
    meter = Meter(spark)
    costs: dict[str, list[Cost]] = {name: [] for name in cases}
    names = list(cases)
    for turn in range(-2, rounds):
        for name in names if turn % 2 else names[::-1]:
            state, records = cases[name]
            set_main(spark, state)
            with planning.for_records(spark, settings, records):
                cost = meter.cost(lambda: build(spark, settings))
            if turn >= 0:
                costs[name].append(cost)
        if turn >= 0:
            last = ", ".join(f"{name} {each[-1].cpu:.1f} s" for name, each in costs.items())
            console.print(f"round {turn + 1}: {last}")
    return costs
