"""Tables stay small, and no extraction or merge ever notices."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_jobs.jobs import maintain, replay
from spark_jobs.jobs.merge import merge_all
from spark_jobs.lake import catalog, offsets, publish, tables
from spark_jobs.lake.offsets import OFFSETS, RUN_ID, read_offsets
from spark_jobs.maintenance import compaction, expiry
from spark_jobs.maintenance.expiry import METADATA
from spark_jobs.maintenance.table import maintain_table, tables_of
from spark_jobs.mart_build.branches import heads
from spark_jobs.mart_build.lock import build_at_once
from spark_jobs.process.file_lock import LockedError
from spark_jobs.settings import Settings, TablePolicy
from tests import lakes
from tests.checks.world import add
from tests.planning import run_jobs_on
from tests.spark.stored import messages, planned, write

RAW, EVENTS = tables.RAW.name, tables.EVENTS.name
STRICT = TablePolicy(tables="*", compact_files=2, max_manifests=1, snapshots_days=0, keep_snapshots=1)
LATER = timedelta(hours=1)  # than all that is committed meanwhile


def extracted(spark, settings, first: int, last: int) -> None:
    """A commit a message."""
    for offset in range(first, last):
        write(
            spark, settings, messages(spark, offset, offset + 1), planned(offset, offset + 1), f"run {offset}"
        )


def kept(
    spark, settings, table: tables.Table = tables.RAW, policy: TablePolicy = STRICT, dry_run: bool = False
):
    return maintain_table(spark, settings, table.name, policy, datetime.now(UTC) + LATER, "upkeep", dry_run)


def next_offset(spark, settings) -> int:
    (position,) = read_offsets(spark, settings, tables.RAW).positions.values()
    return position.next


def count(spark, table: tables.Table, what: str) -> int:
    return spark.table(f"{table.full_name}.{what}").count()


def folder(settings, table: tables.Table) -> Path:
    return settings.home / "warehouse" / table.name.replace(".", "/")


@pytest.fixture(scope="module")
def filled(spark, settings):
    """Two messages, each extracted and merged in a commit of its own; the tests add to them."""
    lakes.empty(spark, settings)
    tables.ensure(spark)
    for offset in range(2):
        extracted(spark, settings, offset, offset + 1)
        merge_all(spark, settings, f"run {offset}")
    return spark


def test_an_ingestion_goes_on_where_it_was_after_all_else_is_gone(filled, settings, monkeypatch):
    def everything() -> set:
        return {(str(file), file.stat().st_mtime) for file in (settings.home / "warehouse").rglob("*")}

    def records() -> list:
        rows = filled.table(tables.EVENTS.full_name).orderBy("queue_offset", "record_index").collect()
        return [(row.queue_offset, row.record_index, row.request_id) for row in rows]

    old_rows = records()
    for table in (tables.RAW, tables.EVENTS):
        before, files = read_offsets(filled, settings, table), everything()
        dry = kept(filled, settings, table, dry_run=True)
        assert everything() == files, "a dry run changes nothing"
        done = kept(filled, settings, table)
        assert (dry.compacted.files, done.compacted.files, done.compacted.into) == (2, 2, 1)
        assert dry.manifests == done.manifests > 1
        assert dry.expired == 2, "the empty first snapshot and the one before the last"
        assert done.refused is None

        assert (count(filled, table, "files"), count(filled, table, "snapshots")) == (1, 1)
        assert len(list(folder(settings, table).rglob("*.parquet"))) == 1
        assert list(heads(catalog.lake(settings), table.name)) == ["main"]
        assert catalog.trace_properties(settings, table.name)[RUN_ID] == "upkeep"
        found = {row.key: row.value for row in filled.sql(f"show tblproperties {table.full_name}").collect()}
        assert METADATA.items() <= found.items()
        after = read_offsets(filled, settings, table)
        assert (after.positions, after.change_seq) == (before.positions, before.change_seq)
    assert records() == old_rows
    (file,) = [row.file_path for row in filled.table(f"{tables.EVENTS.full_name}.files").collect()]
    places = [(row.queue_offset, row.record_index) for row in filled.read.parquet(file).collect()]
    assert places == sorted(places)

    monkeypatch.setattr(offsets, "_rebuilt", lambda *_: pytest.fail("no committed offsets"))
    assert merge_all(filled, settings, "nothing new").records == 0
    first = next_offset(filled, settings)
    extracted(filled, settings, first, first + 1)
    assert merge_all(filled, settings, "new").records == 2
    assert len(records()) == len(set(records())) == 2 * (first + 1)


def test_a_compaction_keeps_the_committed_offsets(filled, settings):
    first = next_offset(filled, settings)
    extracted(filled, settings, first, first + 2)
    before = catalog.trace_properties(settings, tables.RAW.name)
    assert compaction.compact(filled, settings, tables.RAW.name, STRICT, "compaction").files > 1
    (summary,) = filled.sql(
        f"select s.summary from {tables.RAW.full_name}.snapshots s "
        f"join {tables.RAW.full_name}.refs r using (snapshot_id) where r.name = 'main'"
    ).first()
    assert (before | {RUN_ID: "compaction"}).items() <= summary.items()


def test_an_extraction_that_publishes_during_a_compaction_is_not_read_again(filled, settings, monkeypatch):
    """Iceberg alone would put the compaction, with older committed offsets, on top of the extraction."""
    first = next_offset(filled, settings)
    extracted(filled, settings, first, first + 2)
    real, published = compaction._audit, []

    def publish_meanwhile(*given):
        real(*given)
        if not published:
            published.append(True)
            extracted(filled, settings, first + 2, first + 3)

    monkeypatch.setattr(compaction, "_audit", publish_meanwhile)
    assert kept(filled, settings).refused is None, "the second attempt starts from the new main"
    assert published
    assert next_offset(filled, settings) == first + 3
    assert filled.table(tables.RAW.full_name).count() == first + 3


def test_a_table_whose_writers_are_always_first_is_left(filled, settings, monkeypatch):
    def refuse(*_):
        raise publish.PublishConflictError("main moved")

    monkeypatch.setattr("spark_jobs.maintenance.table.drop_old_rows", refuse)
    before = count(filled, tables.RAW, "snapshots")
    assert kept(filled, settings).refused == "main moved"
    assert count(filled, tables.RAW, "snapshots") == before


def test_a_publication_under_way_loses_nothing(filled, settings):
    """Its branch's snapshots and files are there, though main has moved past all that is old."""
    only_expiry = STRICT.model_copy(update={"compact_files": None, "max_manifests": None})
    first = next_offset(filled, settings)
    extracted(filled, settings, first, first + 1)
    base, plan = read_offsets(filled, settings, tables.RAW), planned(first + 1, first + 4)
    with publish.branch(filled, tables.RAW, "slow", base.head) as branch:
        rows, properties = (
            messages(filled, first + 1, first + 4),
            {OFFSETS: offsets.to_json(plan.positions)},
        )
        publish.append(rows, tables.RAW, branch, properties)
        assert kept(filled, settings, policy=only_expiry).expired > 0
        publish.fast_forward(filled, tables.RAW.full_name, branch)
    stored = {row.queue_offset for row in filled.table(tables.RAW.full_name).collect()}
    assert stored == set(range(first + 4))
    assert read_offsets(filled, settings, tables.RAW).positions == plan.positions


def test_the_job_keeps_the_tables_of_its_pool_and_its_waiters_from_being_found_silent(
    filled, settings, monkeypatch
):
    run_jobs_on(settings, monkeypatch)
    arguments = ["--pool", "lake_marts", "--run-id", "of the job"]
    assert maintain.main([*arguments, "--dry-run"]) == 0
    assert filled.table(tables.MAINTENANCE_WINDOWS.full_name).isEmpty()
    assert maintain.main(arguments) == 0
    closed = filled.table(tables.MAINTENANCE_WINDOWS.full_name).where(
        "ends_at < current_timestamp() + interval 1 hour and run_id = 'of the job'"
    )
    assert sorted(row.match for row in closed.collect()) == ["*:freshness_marts*", "*:marts_silent*"]


def test_a_long_replay_keeps_its_waiters_from_being_found_silent(filled, settings, monkeypatch):
    """While it is at work, and for a while after it."""
    run_jobs_on(settings, monkeypatch)
    real, seen = replay.replay, []

    def look(*given):
        rows = filled.table(tables.MAINTENANCE_WINDOWS.full_name)
        open_now = rows.where("run_id = 'of a replay' and ends_at > current_timestamp()").collect()
        seen.append({row.match for row in open_now})
        return real(*given)

    monkeypatch.setattr(replay, "replay", look)
    times = ["--from", "2026-11-20", "--to", "2026-11-22"]
    assert replay.main([*times, "--dry-run", "--run-id", "of a replay"]) == 0
    assert seen
    assert all(found == {f"*:{check}*" for check in replay.WAITING} for found in seen)
    rows = filled.table(tables.MAINTENANCE_WINDOWS.full_name).where("run_id = 'of a replay'")
    assert rows.count() == len(seen) * len(replay.WAITING)
    assert rows.where("ends_at > current_timestamp() + interval 1 hour").isEmpty()


@contextmanager
def commits_in_between(settings, table: tables.Table, count: int) -> Iterator[None]:
    """The next commits of the table find that another one came between, as the catalog's database tells them."""
    with closing(sqlite3.connect(settings.catalog_uri.removeprefix("jdbc:sqlite:"), timeout=60)) as database:
        with database:
            database.execute("create table others (commits int)")
            database.execute("insert into others values (?)", (count,))
            database.execute(
                f"""
                create trigger another_was_first before update on iceberg_tables
                when old.table_name = '{table.name.partition(".")[2]}' and (select commits from others) > 0
                begin
                  update others set commits = commits - 1;
                  select raise(ignore);
                end
                """
            )
        try:
            yield
            assert database.execute("select commits from others").fetchone() < (count,), (
                "none of them was met"
            )
        finally:
            with database:
                database.execute("drop trigger another_was_first")
                database.execute("drop table others")


def only(monkeypatch: pytest.MonkeyPatch, *patterns: str) -> None:
    """Leave all other tables to another pool: a job looks at each one for a second."""
    rows = [{"tables": pattern} for pattern in patterns] + [{"tables": "*", "pool": "lake_marts"}]
    monkeypatch.setenv("TRACE_MAINTENANCE", json.dumps(rows))


@pytest.fixture
def alerts(filled, settings):
    """A table whose commits Iceberg tries once, with two snapshots."""
    for _ in range(2):
        add(settings, tables.ALERTS, [{"identity": "i", "state": "open"}])
    return tables.ALERTS


@pytest.mark.parametrize("what", ["expiry", "manifests", "properties"])
def test_a_commit_that_comes_between_is_no_failure(filled, settings, alerts, what):
    steps = {
        "expiry": lambda: expiry.expire_snapshots(filled, alerts.name, datetime.now(UTC) + LATER, 1),
        "manifests": lambda: compaction.rewrite_manifests(filled, settings, alerts.name, "upkeep"),
        "properties": lambda: expiry.keep_few_metadata_files(filled, alerts.name),
    }
    filled.sql(f"alter table {alerts.full_name} unset tblproperties if exists ('{next(iter(METADATA))}')")
    with commits_in_between(settings, alerts, 2):
        steps[what]()
    assert filled.table(alerts.full_name).count() > 0


def test_tables_of_one_run_are_left_to_the_builds(filled, settings, monkeypatch):
    """A build drops them while maintenance is at work."""
    run_jobs_on(settings, monkeypatch)
    only(monkeypatch, "raw.*", "changes.*")
    maintained: list[str] = []

    def note(spark, settings, name, *arguments):
        maintained.append(name)
        return maintain_table(spark, settings, name, *arguments)

    monkeypatch.setattr(maintain, "maintain_table", note)
    filled.sql("create namespace if not exists lake.changes")
    filled.sql("create table lake.changes.int_of_a_run (id bigint) using iceberg")
    try:
        assert maintain.main(["--pool", "lake_publish", "--dry-run"]) == 0
    finally:
        filled.sql("drop table lake.changes.int_of_a_run purge")
    assert RAW in maintained
    assert "changes.int_of_a_run" not in maintained


def test_marts_in_another_pool_still_have_the_lock_of_the_builds(filled, settings, monkeypatch):
    run_jobs_on(settings, monkeypatch)
    only(monkeypatch, "marts.*")
    held: list[bool] = []

    def look(*_):
        with suppress(LockedError), build_at_once(settings.home, "a build"):
            held.append(False)
            return
        held.append(True)

    monkeypatch.setattr(maintain.publication, "roll_forward", look)
    filled.sql("create table lake.marts.fct_small (id bigint) using iceberg")
    try:
        assert maintain.main(["--pool", "lake_publish"]) == 0
    finally:
        filled.sql("drop table lake.marts.fct_small purge")
    assert held == [True]


def test_a_table_that_fails_is_reported_and_the_others_are_kept(filled, settings, monkeypatch, capfd):
    run_jobs_on(settings, monkeypatch)
    filled.sql(
        f"alter table {tables.ALERTS.full_name} unset tblproperties if exists ('{next(iter(METADATA))}')"
    )
    only(monkeypatch, tables.ALERTS.name, tables.PUBLICATIONS.name, tables.ERASURES.name)
    with commits_in_between(settings, tables.ALERTS, 1000):
        assert maintain.main(["--pool", "lake_publish"]) == 1
    output = capfd.readouterr().err
    assert f"failed {tables.ALERTS.name}" in output
    assert "2 tables in " in output


def test_what_dead_runs_left_goes_when_it_is_old(filled, settings):
    """Branches and files; what is younger may belong to a run that is at work."""
    old, young = (datetime.now(UTC) - timedelta(days=days) for days in (4, 2))
    names = [f"extract_{made:%Y%m%d%H%M%S}_{n:012x}" for n, made in enumerate((old, young))]
    files = [folder(settings, tables.RAW) / "data" / f"left-{n}.parquet" for n in range(2)]
    for name, file, made in zip(names, files, (old, young), strict=True):
        filled.sql(f"alter table {tables.RAW.full_name} create branch {name}")
        file.write_bytes(b"left by a killed task")
        os.utime(file, (made.timestamp(), made.timestamp()))
    done = kept(filled, settings)
    assert (done.state.left_branches, done.orphans) == ((names[0],), 1)
    assert set(heads(catalog.lake(settings), tables.RAW.name)) == {"main", names[1]}
    assert [file.exists() for file in files] == [False, True]
    publish.drop_branch(filled, tables.RAW.full_name, names[1])


def test_each_table_has_a_policy_and_the_first_row_counts(filled):
    settings = Settings(maintenance=[TablePolicy(tables="raw.*", retention_days=7)])
    assert settings.table_policy(tables.RAW.name).retention_days == 7
    assert settings.table_policy(tables.EVENTS.name).retention_days == 400
    assert settings.table_policy("someones.own").retention_days is None
    of_pool = {
        pool: {name for name, _ in tables_of(filled, settings, pool)}
        for pool in ("lake_publish", "lake_marts")
    }
    assert tables.RAW.name in of_pool["lake_publish"]
    assert tables.PUBLICATIONS.name in of_pool["lake_marts"]
    assert not of_pool["lake_publish"] & of_pool["lake_marts"]
