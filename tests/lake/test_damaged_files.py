"""Files of a table that are lost or damaged: the job names the table and the file, and what it advises works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_jobs.jobs import merge, replay, watchdog
from spark_jobs.jobs.run import run_job
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.identity import local_path
from spark_jobs.lake.tables import Table
from spark_jobs.settings import Settings
from tests.planning import run_jobs_on

RECORDS = 40  # of the 20 messages, which two days hold
DAYS = ("2026-11-20", "2026-11-21")


@pytest.fixture
def merged(original: Settings, spark, monkeypatch) -> Settings:
    run_jobs_on(original, monkeypatch)
    assert merge.merge_all(spark, original, "merge").records in (0, RECORDS)
    return original


def newest_metadata(settings: Settings, table: Table) -> Path:
    return Path(local_path(lake(settings).load_table(table.name).metadata_location) or "")


def manifest_list(settings: Settings, table: Table) -> Path:
    snapshot = lake(settings).load_table(table.name).current_snapshot()
    assert snapshot
    return Path(local_path(snapshot.manifest_list) or "")


def data_file(settings: Settings, table: Table) -> Path:
    """One of the second day."""
    tasks = lake(settings).load_table(table.name).scan().plan_files()
    files = [Path(local_path(task.file.file_path) or "") for task in tasks]
    return next(file for file in files if DAYS[1] in str(file))


@contextmanager
def damaged(file: Path, content: bytes | None) -> Iterator[None]:
    """The file has other content, or is gone; its checksum too, as only Hadoop writes one."""
    checksum = file.with_name(f".{file.name}.crc")
    kept = {each: each.read_bytes() for each in (file, checksum) if each.exists()}
    for each in kept:
        each.unlink()
    if content is not None:
        file.write_bytes(content)
    try:
        yield
    finally:
        for each, before in kept.items():
            each.write_bytes(before)


def replayed() -> int:
    return replay.main(["--from", DAYS[0], "--to", "2026-11-22"])


def last_line(capfd, main: Callable[[], int]) -> str:
    capfd.readouterr()
    assert run_job(main) == 1
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("failed: ")][-1]


@pytest.mark.parametrize("content", [None, b"", b'{"format-version": 2, "location'])
def test_the_metadata_of_a_table_that_every_job_opens(merged, capfd, content):
    file = newest_metadata(merged, tables.RAW)
    with damaged(file, content):
        line = last_line(capfd, lambda: merge.main([]))
    state = "does not exist" if content is None else "cannot be read"
    assert f"table raw.trace_messages: metadata file {file} {state}" in line
    assert "docs/maintenance.md, Lost or damaged files" in line


@pytest.mark.parametrize("content", [None, b"{"])
def test_the_watchdog_names_the_metadata_that_it_cannot_read(merged, capfd, content):
    file = newest_metadata(merged, tables.CHECK_RESULTS)
    with damaged(file, content):
        line = last_line(capfd, lambda: watchdog.main([]))
    assert f"table ops.check_results: metadata file {file}" in line


@pytest.mark.parametrize(
    ("find", "table", "advice"),
    [
        (data_file, tables.RAW, f"make reextract FROM={DAYS[1]} TO=2026-11-22"),
        (data_file, tables.EVENTS, f"make replay FROM={DAYS[1]} TO=2026-11-22"),
        (manifest_list, tables.RAW, "an older metadata file"),
    ],
)
@pytest.mark.parametrize("content", [None, b"x" * 500], ids=["missing", "damaged"])
def test_a_file_that_a_job_reads(merged, capfd, find, table, advice, content):
    file = find(merged, table)
    with damaged(file, content):
        line = last_line(capfd, replayed)
    kind = "data file" if find is data_file else "metadata file"
    assert (
        f"table {table.name}: {kind} {file} {'does not exist' if content is None else 'cannot be read'}"
        in line
    )
    assert advice in line


def test_a_lost_file_of_events_is_decoded_again(merged, spark):
    """As docs/maintenance.md says."""
    data_file(merged, tables.EVENTS).unlink()
    spark.sql(
        f"delete from {tables.EVENTS.full_name} where store_time >= timestamp '{DAYS[1]}' "
        "and store_time < timestamp '2026-11-22'"
    )
    assert 0 < spark.table(tables.EVENTS.full_name).count() < RECORDS
    assert replayed() == 0
    assert spark.table(tables.EVENTS.full_name).count() == RECORDS
    assert merge.merge_all(spark, merged, "again").records == 0


def test_the_day_of_a_lost_file_of_raw_can_be_deleted(merged, spark):
    """No file of it is read. Then it can be read again, see tests/faults/jobs/test_reextract.py."""
    raw = tables.RAW.full_name
    before = lake(merged).load_table(tables.RAW.name).current_snapshot()
    assert before
    with damaged(data_file(merged, tables.RAW), None):
        spark.sql(
            f"delete from {raw} where store_time >= timestamp '{DAYS[1]}' "
            "and store_time < timestamp '2026-11-22'"
        )
        assert 0 < len(spark.table(raw).select("body").collect()) < RECORDS / 2
    spark.sql(f"call lake.system.rollback_to_snapshot('{tables.RAW.name}', {before.snapshot_id})")


def test_a_lost_metadata_file_and_an_older_one(merged, spark):
    """As docs/maintenance.md says."""
    lost = newest_metadata(merged, tables.EVENTS)
    lost.unlink()
    older = sorted(lost.parent.glob("*.metadata.json"))[-1]
    catalog = lake(merged)
    catalog.drop_table(tables.EVENTS.name)
    catalog.register_table(tables.EVENTS.name, f"file://{older}")
    merge.merge_all(spark, merged, "again")
    assert spark.table(tables.EVENTS.full_name).count() == RECORDS
