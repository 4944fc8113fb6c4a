"""Job: erase what the warehouse has of one key, group or message of a cluster, from every table and every snapshot.

The rule is recorded first, as a salted hash, and every later extraction applies it. After an interruption run the job
again: every step is idempotent.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import SparkSession
from rich.console import Console
from rich.prompt import Confirm

from spark_jobs.backup import erasures as backups
from spark_jobs.erasure import rules
from spark_jobs.erasure.marts import erase_from_marts
from spark_jobs.erasure.rules import Kind, Rule
from spark_jobs.erasure.tables import (
    Erased,
    erase_from_events,
    erase_from_ops,
    erase_from_raw,
    forget,
    left,
    look_up,
    rewritten_messages,
)
from spark_jobs.jobs.replay import replay_messages
from spark_jobs.jobs.run import job_parser, report_failure, run_job
from spark_jobs.lake import publish, tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.lake.session import session
from spark_jobs.maintenance.retention import dropped_before
from spark_jobs.mart_build import branches, dbt, rebuild_state, report
from spark_jobs.mart_build.build import build_and_publish, recover
from spark_jobs.mart_build.inputs import Published, inputs_now
from spark_jobs.mart_build.lock import no_rebuild, one_build
from spark_jobs.serving import build as serving
from spark_jobs.serving import files
from spark_jobs.settings import Settings

GROUPS_SHOWN = 20
_console = Console(stderr=True, width=140)


def erase(
    spark: SparkSession, settings: Settings, cluster: str, kind: Kind, text: str, run_id: str
) -> tuple[Rule, Erased]:
    """Record the rule and erase from raw, events and ops; the marts and old snapshots still contain it after this.

    Raises:
        ValueError: the text cannot be a key, group or message id.
        publish.PublishConflictError, publish.AuditError: run it again.
    """
    text = rules.named(kind, text)
    rule = rules.add_rule(spark, settings, cluster, kind, text, run_id)
    backups.record(settings.home, rule)
    return rule, erase_rule(spark, settings, rule, text, run_id)


def erase_rule(spark: SparkSession, settings: Settings, rule: Rule, text: str | None, run_id: str) -> Erased:
    """`erase` by a rule that is recorded; the text, if it is known, makes it faster."""
    done = publish.retry_on_conflict()(erase_from_raw, spark, settings, rule, text, run_id)
    rules.add_counts(spark, rule, done.messages, done.records)
    replay_messages(spark, settings, rewritten_messages(spark, rule), run_id)
    publish.retry_on_conflict()(erase_from_events, spark, settings, rule, run_id)
    erase_from_ops(spark, rule)
    return done


def preview(spark: SparkSession, settings: Settings, cluster: str, kind: Kind, text: str) -> None:
    """Print what raw, events and ops contain of it; change nothing."""
    text = rules.named(kind, text)
    found = look_up(spark, settings, Rule(cluster, kind, "", rules.digest("", text)), text)
    shown = [f"{group} ({count})" for group, count in found.groups[:GROUPS_SHOWN]]
    if len(found.groups) > GROUPS_SHOWN:
        shown.append(f"and {len(found.groups) - GROUPS_SHOWN} more")
    lines = [
        f"to erase: {kind.value} {text!r} of cluster {cluster!r}",
        f"  messages  {found.raw.messages} of {tables.RAW.full_name} contain it",
        f"  records   {found.raw.records} in those messages; {found.events} rows of {tables.EVENTS.full_name}, "
        f"{found.ops} of lake.ops and lake.broker_facts",
        f"  groups    {', '.join(shown) or 'none'}",
        f"  stored    {f'{found.first} to {found.last} UTC' if found.first else 'never'}",
        "then the marts are rebuilt, and all old snapshots are expired. This cannot be undone",
    ]
    _console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def confirmed() -> bool:
    """Whether the user confirms on the terminal."""
    try:
        return Confirm.ask("Erase this?", console=_console, default=False)
    except EOFError:
        return False


def rebuild_marts(spark: SparkSession, settings: Settings, rule: Rule) -> bool:
    """Build and publish the marts from what is left; return whether that passed.

    Rows whose records retention has dropped from events are kept, except those that the rule matches.
    """
    catalog = lake(settings)
    report.recovered(recover(spark, catalog, settings))
    inputs = inputs_now(
        settings,
        read_offsets(spark, settings, tables.EVENTS),
        Published.of(settings),
        dbt.definitions(settings.limits, settings.home / "dbt"),
        kept_from=dropped_before(settings, tables.EVENTS.name),
        full_refresh=True,
    )
    if inputs is None:
        return True
    first = (
        partial(erase_from_marts, spark, branches.audited_tables(catalog), rule) if inputs.kept_from else None
    )
    built = build_and_publish(spark, catalog, inputs, settings.home / "dbt", first=first)
    if not built.passed:
        report.refused(built, str(settings.home / "dbt"))
    return built.passed


def rebuild_serving_file(settings: Settings) -> None:
    """Write a serving file without anything of the older ones, and remove those; if that fails, remove all of them."""
    try:
        if Published.of(settings):
            serving.build(settings, from_scratch=True)
    except Exception as error:
        report_failure(error)
        files.remove_all(settings)
        _console.print(
            "[bold yellow]warning[/]: no new serving file could be built, so all of them were removed, as they contain it. "
            "The next publication of the marts builds a new one"
        )


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__, with_dry_run=True)
    parser.add_argument("--cluster", required=True, help="name of the cluster in the tables")
    what = parser.add_mutually_exclusive_group(required=True)
    for kind in Kind:
        what.add_argument(f"--{kind.value.replace('_', '-')}", help=f"the {kind.value} to erase")
    parser.add_argument("--yes", action="store_true", help="erase without asking")
    args = parser.parse_args(argv)
    kind, text = next((kind, value) for kind in Kind if (value := getattr(args, kind.value)) is not None)
    try:
        rules.named(kind, text)
    except ValueError as error:
        parser.error(str(error))
    if not (args.dry_run or args.yes or sys.stdin.isatty()):
        parser.error(
            "an erasure needs confirmation, and there is no terminal to ask on; nothing was erased. "
            "Preview it (DRY_RUN=1, --dry-run), then confirm with YES=1 (--yes)"
        )
    settings = Settings()
    backups.raise_if_away(settings.home)
    spark = session("erase", settings)
    tables.ensure(spark)
    preview(spark, settings, args.cluster, kind, text)
    if args.dry_run:
        return 0
    if not (args.yes or confirmed()):
        _console.print("nothing was erased")
        return 1
    rule, done = erase(spark, settings, args.cluster, kind, text, args.run_id)
    _console.print(f"removed {done.records} records from {done.messages} messages", highlight=False)
    if not finish(spark, settings, rule, rules.named(kind, text), args.run_id):
        return 1
    _console.print("erased from all tables and snapshots")
    return 0


def all_tables(settings: Settings) -> list[str]:
    """The tables that may contain what is erased, as `<namespace>.<table>`."""
    spaces = ("raw", "events", "ops", "broker_facts", *branches.NAMESPACES)
    return [table for space in spaces for table in branches.tables_in(lake(settings), space)]


def finish(spark: SparkSession, settings: Settings, rule: Rule, text: str | None, run_id: str) -> bool:
    """After `erase_rule`: erase from the marts and all old snapshots; return whether nothing is left."""
    rebuild_state.remove(settings.home)
    with no_rebuild(settings.home, "erase"), one_build(settings.home, "erase"):
        rebuild_state.remove(settings.home)  # one may have begun meanwhile
        rebuilt = rebuild_marts(spark, settings, rule)
        if rebuilt:
            rebuild_serving_file(settings)
    if not rebuilt:
        _console.print("[bold red]not done[/]: the marts still contain it. Fix the build and run this again")
        return False
    held = forget(spark, settings, all_tables(settings), datetime.now(UTC) + timedelta(seconds=1), run_id)
    if held:
        _console.print(
            f"[bold red]not done[/]: branches still contain it: {', '.join(held)}. They belong to jobs that are running "
            "or have died; maintenance drops old branches. Run this again after that"
        )
        return False
    raw, events, ops = left(spark, settings, rule, text)
    if raw.messages or events or ops:
        _console.print(
            f"[bold red]not done[/]: {raw.messages} messages, {events} records and {ops} rows of lake.ops and "
            "lake.broker_facts contain it again: another job wrote them during the erasure. Run this again",
            highlight=False,
        )
        return False
    rules.complete(spark, rule)
    return True


if __name__ == "__main__":
    sys.exit(run_job(main))
