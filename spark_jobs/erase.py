"""Job: erase what the warehouse has of one key, group or message of a cluster, from every table and every snapshot.

The rule is booked first, as a salted hash, and every later extraction obeys it. A job that was ended is run again.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from rich.console import Console

from spark_jobs import tables
from spark_jobs.catalog import lake
from spark_jobs.erasure import rules
from spark_jobs.erasure.erase import (
    Erased,
    erase_from_events,
    erase_from_ops,
    erase_from_raw,
    forget,
    left,
    rewritten_messages,
)
from spark_jobs.erasure.rules import Kind, Rule
from spark_jobs.failures import told
from spark_jobs.ingest import publish
from spark_jobs.ingest.positions import booked
from spark_jobs.publish import branches, report
from spark_jobs.publish.inputs import Inputs
from spark_jobs.publish.marts import build_and_publish, recover
from spark_jobs.replay import replay_messages
from spark_jobs.session import session
from spark_jobs.settings import Settings

_console = Console(stderr=True, width=140)


def erase(
    spark: SparkSession, settings: Settings, cluster: str, kind: Kind, text: str, run_id: str
) -> tuple[Rule, Erased]:
    """Book the rule and erase from raw, events and ops; the marts and old snapshots still hold it after this.

    Raises:
        ValueError: no key, group or id can be so.
        publish.PublishRefused, publish.AuditFailed: run it again.
    """
    text = rules.named(kind, text)
    rule = rules.book(spark, settings, cluster, kind, text, run_id)
    for attempt in publish.planning_again():
        with attempt:
            done = erase_from_raw(spark, settings, rule, text, run_id)
    rules.add_counts(spark, rule, done.messages, done.records)
    replay_messages(spark, settings, rewritten_messages(spark, rule), run_id)
    for attempt in publish.planning_again():
        with attempt:
            erase_from_events(spark, settings, rule, run_id)
    erase_from_ops(spark, rule)
    return rule, done


def would_erase(spark: SparkSession, settings: Settings, cluster: str, kind: Kind, text: str) -> None:
    """Print what raw, events and ops hold of it, and change nothing."""
    text = rules.named(kind, text)
    rule = Rule(cluster, kind, "", rules.digest("", text))
    raw, events, ops = left(spark, settings, rule, text)
    _console.print(
        f"would take {raw.records} records out of {raw.messages} messages of {tables.RAW.full_name}, {events} rows out "
        f"of {tables.EVENTS.full_name}, {ops} out of lake.ops; then build the marts anew and expire all old snapshots",
        highlight=False,
    )


def rebuild_marts(spark: SparkSession, settings: Settings) -> bool:
    """Build and publish the marts from what is left; returns whether they could be."""
    catalog = lake(settings)
    report.recovered(recover(spark, catalog))
    inputs = Inputs.of(booked(spark, settings, tables.EVENTS), settings.limits, published=None)
    if inputs is None:
        return True
    built = build_and_publish(spark, catalog, inputs, settings.home / "dbt")
    if not built.passed:
        report.refused(built, str(settings.home / "dbt"))
    return built.passed


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True, help="as it stands in the tables")
    what = parser.add_mutually_exclusive_group(required=True)
    for kind in Kind:
        what.add_argument(f"--{kind.value.replace('_', '-')}", help=f"the {kind.value} to erase")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, say what would be erased")
    parser.add_argument("--run-id", default=uuid.uuid4().hex, help="stands in the snapshots that are made")
    args = parser.parse_args(argv)
    kind, text = next((kind, value) for kind in Kind if (value := getattr(args, kind.value)) is not None)
    try:
        rules.named(kind, text)
    except ValueError as error:
        parser.error(str(error))
    settings = Settings()
    spark = session("erase", settings)
    tables.ensure(spark)
    if args.dry_run:
        would_erase(spark, settings, args.cluster, kind, text)
        return 0
    rule, done = erase(spark, settings, args.cluster, kind, text, args.run_id)
    _console.print(f"took {done.records} records out of {done.messages} messages", highlight=False)
    if not rebuild_marts(spark, settings):
        _console.print("[bold red]not done[/]: the marts still hold it. Mend them and run this again")
        return 1
    spaces = ("raw", "events", "ops", *branches.NAMESPACES)
    everywhere = [table for space in spaces for table in branches.tables_in(lake(settings), space)]
    held = forget(spark, settings, everywhere, datetime.now(UTC) + timedelta(seconds=1), args.run_id)
    if held:
        _console.print(
            f"[bold red]not done[/]: branches still hold it: {', '.join(held)}. They belong to jobs that are at work, "
            "or that died; maintenance drops them when they are old. Run this again then"
        )
        return 1
    raw, events, ops = left(spark, settings, rule, rules.named(kind, text))
    if raw.messages or events or ops:
        _console.print(
            f"[bold red]not done[/]: {raw.messages} messages, {events} records and {ops} rows of lake.ops hold it again: "
            "another job wrote them meanwhile. Run this again",
            highlight=False,
        )
        return 1
    rules.complete(spark, rule)
    _console.print("erased from all tables and snapshots")
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
