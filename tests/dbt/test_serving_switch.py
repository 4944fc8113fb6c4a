"""A new serving file takes the place of the current one at once, and readers see one publication."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from spark_jobs.jobs import marts as marts_job
from spark_jobs.lake import tables
from spark_jobs.maintenance.expiry import expire_snapshots
from spark_jobs.maintenance.state import expire_before
from spark_jobs.mart_build import branches, publication
from spark_jobs.mart_build.inputs import Published
from spark_jobs.serving import build as serving_build
from spark_jobs.serving import contents, files
from spark_jobs.serving.build import build
from spark_jobs.serving.contents import ServingFileError, current_file, is_current
from spark_jobs.settings import PROJECT, TablePolicy
from tests.dbt.serving import comparable, rows_in_spark, with_limit
from tests.planning import run_jobs_on
from tests.soak import IS_SOAK

# A view of the dashboards reads `send_latency`, and a macro the teams of topics and groups.
SHOWN = (
    *("marts.send_latency", "marts.dim_topics", "marts.dim_consumer_groups"),
    *("marts.fct_sends", "marts.one", "marts.two", tables.EVENTS.name),
)


@pytest.fixture
def served(served):
    """The settings of the lake, whose serving files show a few tables: a switch does not depend on their number."""

    def only(relations):
        return lambda *given: [each for each in relations(*given) if each.name in SHOWN]

    with pytest.MonkeyPatch.context() as patch:
        for name in ("for_dashboards", "for_readers"):
            patch.setattr(serving_build, name, only(getattr(serving_build, name)))
        yield served


def test_a_reader_keeps_its_file_while_others_see_the_next(served):
    first = build(served).file
    with duckdb.connect(first, read_only=True) as reader:
        count = reader.execute("select count(*) from lake.marts.fct_sends").fetchone()
        second = build(served).file
        assert current_file(served) == second != first
        assert reader.execute("select count(*) from lake.marts.fct_sends").fetchone() == count
        assert files.retained(served) == [first, second]
        third = build(with_limit(served, 1_000_000, keep_minutes=0)).file
        assert files.retained(served) == [third]
        assert reader.execute("select count(*) from lake.marts.fct_sends").fetchone() == count


@pytest.mark.parametrize("before", ["rename", "symlink_to", "replace"])
def test_a_build_that_is_killed_in_the_switch_changes_nothing(served, monkeypatch, before):
    """It is killed before the new folder gets its name, before the link is made, and before the link is replaced."""
    first = build(served).file

    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "discard", lambda file: None)  # nothing is cleaned up after a kill
    monkeypatch.setattr(os if before == "replace" else Path, before, killed)
    with pytest.raises(KeyboardInterrupt):
        build(served)
    monkeypatch.undo()
    assert files.current(served) == first
    second = build(served).file
    assert {path.name for path in files.folder(served).iterdir()} == {
        *("current", first.parent.name, second.parent.name)
    }


def test_a_build_that_fails_leaves_nothing(served, monkeypatch):
    monkeypatch.setattr(duckdb, "connect", lambda *_, **__: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space left"):
        build(served)
    assert list(files.folder(served).iterdir()) == []


def test_files_are_in_the_order_of_their_switches_although_the_clock_was_set_back(served):
    first = build(served).file
    ahead = first.parent.with_name(f"{datetime.now(UTC) + timedelta(days=1):{files._NAME}}")
    first.parent.rename(ahead)
    (files.folder(served) / "current").unlink()
    (files.folder(served) / "current").symlink_to(ahead.name)
    second = build(served).file
    assert files.retained(served) == [ahead / files.FILE, second]
    assert files.current(served) == second
    third = build(served, from_scratch=True).file
    assert files.retained(served) == [third]


def test_a_file_cannot_be_written_to(served):
    assert not build(served).file.stat().st_mode & 0o222


@pytest.mark.parametrize("damage", ["not a database", ""])
def test_a_damaged_file_is_replaced(served, damage):
    file = build(served).file
    file.chmod(0o644)
    file.write_text(damage)
    assert not is_current(served, Published.of(served).publication_id)
    build(served)
    assert is_current(served, Published.of(served).publication_id)


def test_the_file_of_a_copied_home_is_refused(served, tmp_path):
    build(served)
    copied = served.model_copy(update={"home": tmp_path})
    shutil.copytree(files.folder(served), files.folder(copied), symlinks=True)
    copied.__dict__.pop("warehouse_uri", None)
    with pytest.raises(ServingFileError, match="reads the tables in"):
        current_file(copied)


def test_snapshots_that_a_retained_file_shows_are_not_expired(marts, catalog, served):
    """The files of events are rewritten after the file was built; later, the old ones would be due."""
    name, later = tables.EVENTS.name, datetime.now(UTC) + timedelta(days=30)
    policy = TablePolicy(tables=name, keep_snapshots=1, snapshots_days=0, compact_files=None)
    file, before = build(served).file, rows_in_spark(marts, name)
    shown = catalog.load_table(name).current_snapshot()
    marts.sql(
        f"call lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
    )
    rewritten = catalog.load_table(name)
    assert rewritten.current_snapshot().snapshot_id != shown.snapshot_id
    assert contents.needed_snapshots(served, name) == {shown.snapshot_id}
    until = expire_before(served, rewritten, policy, later)
    assert until == datetime.fromtimestamp(shown.timestamp_ms / 1000, UTC)

    expire_snapshots(marts, name, until, keep=1)
    with duckdb.connect(file, read_only=True) as reader:
        assert Counter(map(comparable, reader.execute(f"select * from lake.{name}").fetchall())) == before
    files.remove_all(served)
    assert expire_before(served, rewritten, policy, later) == later
    damaged = build(served).file
    damaged.chmod(0o644)
    damaged.write_text("damaged")
    assert expire_before(served, rewritten, policy, later).year == 1970, "what it shows is not known"


def test_a_failure_is_an_alert_and_fails_no_job(marts, served, monkeypatch):
    """The next run builds the file, which resolves the alert."""
    run_jobs_on(served, monkeypatch)

    def fails(settings):
        raise OSError("disk quota exceeded")

    monkeypatch.setattr(serving_build, "build", fails)
    assert marts_job.main(["--run-id", "fails"]) == 0
    monkeypatch.undo()
    run_jobs_on(served, monkeypatch)
    alert = "select state, summary from lake.ops.alerts where `check` = 'serving_file'"
    ((state, summary),) = marts.sql(alert).collect()
    assert (state, summary) == (
        "open",
        "local: the serving file could not be built: OSError: disk quota exceeded",
    )
    assert files.current(served) is None
    assert marts_job.main(["--run-id", "passes"]) == 0
    assert [row.state for row in marts.sql(alert).collect()] == ["resolved"]
    assert is_current(served, Published.of(served).publication_id)
    file = files.current(served)
    assert marts_job.main(["--run-id", "nothing new"]) == 0
    assert files.current(served) == file


READER = """
import collections, json, sys, time
import duckdb
from spark_jobs.serving.contents import current_file
from spark_jobs.settings import Settings

settings, seen, last, pause = Settings(), collections.Counter(), int(sys.argv[1]), float(sys.argv[2])
while max(seen, default=0) < last:
    with duckdb.connect(current_file(settings), read_only=True) as connection:
        found = set()
        for _ in range(3):
            found |= {connection.execute(f"select n from lake.marts.{table}").fetchone()[0] for table in ("one", "two")}
            time.sleep(pause)
        if len(found) != 1:
            sys.exit(f"a mixture of publications: {found}")
        seen[found.pop()] += 1
print(json.dumps(seen))
"""


def test_readers_see_whole_publications_only(marts, catalog, served, record_property):
    """Processes that query while the marts are published again and again: one table is copied, the other read in place."""
    # Without a pause, readers take all of the processor from other tests.
    readers, publications, pause = (16, 20, 0) if IS_SOAK else (4, 3, 0.1)
    names, wap, hour = (
        ["marts.one", "marts.two"],
        "'write.wap.enabled' = 'true'",
        "timestamp '2026-11-20 12:00:00'",
    )
    in_place = with_limit(served, 0)
    try:
        marts.sql(f"create table lake.marts.one (n int) using iceberg tblproperties ({wap})")
        marts.sql(
            f"create table lake.marts.two (n int, hour timestamp) using iceberg partitioned by (hour) tblproperties ({wap})"
        )
        marts.sql("insert into lake.marts.one values (0)")
        marts.sql(f"insert into lake.marts.two values (0, {hour})")
        build(in_place)
        environment = os.environ | {"TRACE_HOME": str(served.home), "PYTHONPATH": str(PROJECT)}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", READER, str(publications), str(pause)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(readers)
        ]
        for number in range(1, publications + 1):
            branch = f"{branches.PREFIX}{number}"
            branches.create(marts, catalog, names, branch)
            with branches.writing_to(marts, branch, {}):
                marts.sql(f"insert overwrite lake.marts.one values ({number})")
                marts.sql(f"insert overwrite lake.marts.two values ({number}, {hour})")
            publication.publish(marts, catalog, names, branch, f"readers-{number}", 1)
            branches.drop_all(marts, catalog, names)
            build(in_place)
        outputs = [process.communicate(timeout=120) for process in processes]
    finally:
        for name in names:
            marts.sql(f"drop table if exists lake.{name} purge")
        marts.sql("delete from lake.ops.publications where table_name in ('marts.one', 'marts.two')")
    assert [
        (process.returncode, errors) for process, (_, errors) in zip(processes, outputs, strict=True)
    ] == [(0, "")] * readers
    assert all(str(publications) in json.loads(seen) for seen, _ in outputs)
    queries = sum(sum(json.loads(seen).values()) for seen, _ in outputs) * 6
    record_property("counts", {"readers": readers, "publications": publications, "queries": queries})
