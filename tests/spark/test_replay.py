"""Raw is decoded again: messages that the decoder reads differently are replaced, all others stay."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime

import pytest
from pyspark.sql import functions as F

from spark_jobs.checks.check import Run
from spark_jobs.jobs import replay as job
from spark_jobs.jobs.marts import gate
from spark_jobs.jobs.merge import merge_all
from spark_jobs.jobs.replay import replay_all
from spark_jobs.lake import publish, tables
from spark_jobs.lake.catalog import rewrites_since
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.mart_build.dbt import Build
from spark_jobs.trace.decode import DECODER_VERSION, OUTPUT, decode
from spark_jobs.trace.replay import Replayed, replay
from tests.spark.stored import RECORD, messages, planned, stored, write

# A Java client with access channel CLOUD: the second record is glued to the first; a third stands alone.
GLUED = RECORD.removesuffix("\x02") + "\x01" + RECORD * 2
PLAIN, TORN = 20, 6  # messages; the queue passes midnight after ten seconds


def at(offset: int) -> datetime:
    """The store time of the message at an offset."""
    return datetime.fromtimestamp(stored(offset) / 1000, UTC).replace(tzinfo=None)


def rows(spark, *columns: str):
    return sorted(map(tuple, spark.table(tables.EVENTS.full_name).select(*columns).collect()))


def commits(spark) -> int:
    return spark.table(f"{tables.EVENTS.full_name}.snapshots").count()


@pytest.fixture
def torn(lake, settings, monkeypatch):
    """Records that an older decoder made, which knew of no glued ones; the newer decoder is in force."""
    with monkeypatch.context() as older:
        older.setattr("spark_jobs.trace.pieces._GLUED", "(?!)()")
        older.setattr("spark_jobs.trace.merge.DECODER_VERSION", "old")
        found = messages(lake, 0, PLAIN).union(messages(lake, PLAIN, PLAIN + TORN, GLUED))
        write(lake, settings, found, planned(0, PLAIN + TORN), "run")
        assert merge_all(lake, settings, "run").records == 2 * PLAIN + 2 * TORN
    return lake


@pytest.fixture
def far_from_utc(monkeypatch):
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def replayed(spark, settings, start: int = 0, end: int = PLAIN + TORN, **kwargs) -> list[Replayed]:
    return replay_all(spark, settings, at(start), at(end), "replay", **kwargs)


def test_what_was_invalid_becomes_valid_and_all_else_stays(torn, settings):
    before = read_offsets(torn, settings, tables.EVENTS)
    assert rewrites_since(settings, tables.EVENTS, None) == []
    first, second = replayed(torn, settings)
    assert rewrites_since(settings, tables.EVENTS, before.head) != []
    # Marts that were built meanwhile are refused: they hold rows of before and of after.
    refused = gate(Run(settings, datetime.now(UTC), torn), "run", before.head)(
        Build([], [], 1.0), "no_branch"
    )
    assert [line for line in refused if "replaced or deleted rows" in line]
    assert (first.messages, first.changed) == (10, 0)
    assert (second.messages, second.changed) == (PLAIN + TORN - 10, TORN)
    assert (second.before, second.after) == (2 * TORN, 3 * TORN)
    assert (second.invalid_before, second.invalid_after) == (TORN, 0)

    events = torn.table(tables.EVENTS.full_name)
    expected = decode(torn.table(tables.RAW.full_name), settings.limits)
    assert expected.exceptAll(events.select(*OUTPUT)).isEmpty()
    assert events.count() == 2 * PLAIN + 3 * TORN
    seen = events.selectExpr(f"queue_offset < {PLAIN}", "decoder_version", "change_seq").distinct()
    assert set(map(tuple, seen.collect())) == {(True, "old", 1), (False, DECODER_VERSION, 2)}

    # The models find the old keys here, and the new ones by change_seq 2.
    old = torn.table(tables.REPLACED_RECORDS.full_name).collect()
    assert {(r.queue_offset, r.record_index, r.change_seq, r.decoder_version) for r in old} == {
        (offset, index, 2, "old") for offset in range(PLAIN, PLAIN + TORN) for index in (0, 1)
    }
    assert {r.request_id for r in old if r.record_type == "SubAfter"} == {
        f"rq{offset}" for offset in range(PLAIN, PLAIN + TORN)
    }

    after = read_offsets(torn, settings, tables.EVENTS)
    assert (after.positions, after.change_seq) == (before.positions, before.change_seq + 1)
    assert merge_all(torn, settings, "again").records == 0
    commits_before = commits(torn)
    assert [day.changed for day in replayed(torn, settings)] == [0, 0]
    assert commits(torn) == commits_before

    with pytest.raises(publish.PublishConflictError):  # planned before the commit of the first replay
        replay(torn, at(PLAIN), at(PLAIN + TORN), before, settings.limits, "slow")
    assert events.count() == 2 * PLAIN + 3 * TORN
    assert torn.table(tables.REPLACED_RECORDS.full_name).count() == 2 * TORN


def test_a_record_that_is_no_more_is_deleted(lake, settings, monkeypatch):
    write(lake, settings, messages(lake, 0, 4, GLUED), planned(0, 4), "run")
    merge_all(lake, settings, "run")
    monkeypatch.setattr("spark_jobs.trace.pieces._GLUED", "(?!)()")
    (done,) = replayed(lake, settings, 0, 4)
    assert (done.before, done.after) == (12, 8)
    assert rows(lake, "queue_offset", "record_index") == [(o, i) for o in range(4) for i in range(2)]


@pytest.mark.usefixtures("far_from_utc")
def test_a_dry_run_says_the_same_and_changes_nothing(torn, settings):
    before = commits(torn), rows(torn, *OUTPUT[:8])
    dry = replayed(torn, settings, dry_run=True)
    assert (commits(torn), rows(torn, *OUTPUT[:8])) == before
    assert torn.table(tables.REPLACED_RECORDS.full_name).isEmpty()
    assert [(day.day, day.messages) for day in dry] == [
        (date(2026, 11, 20), 10),
        (date(2026, 11, 21), PLAIN + TORN - 10),
    ]
    assert dry == replayed(torn, settings)


def test_only_the_time_that_was_asked_for(torn, settings):
    (done,) = replayed(torn, settings, PLAIN + 2, PLAIN + 3)
    assert (done.messages, done.changed) == (1, 1)
    invalid = torn.table(tables.EVENTS.full_name).where("record_type = 'Invalid'")
    assert {r.queue_offset for r in invalid.collect()} == set(range(PLAIN, PLAIN + TORN)) - {PLAIN + 2}


def test_records_whose_message_raw_no_longer_has_stay(torn, settings):
    torn.sql(f"delete from {tables.RAW.full_name} where queue_offset >= {PLAIN}")
    assert [day.changed for day in replayed(torn, settings)] == [0, 0]
    assert torn.table(tables.EVENTS.full_name).count() == 2 * PLAIN + 2 * TORN


def test_messages_that_are_not_merged_yet_are_left_to_the_merge(torn, settings):
    end = PLAIN + TORN
    write(torn, settings, messages(torn, end, end + 3, GLUED), planned(end, end + 3), "run 2")
    assert sum(day.messages for day in replayed(torn, settings, end=end + 3)) == end
    assert merge_all(torn, settings, "run 2").records == 9
    assert torn.table(tables.EVENTS.full_name).count() == 2 * PLAIN + 3 * (TORN + 3)


def test_a_branch_that_holds_something_else_is_not_published(torn, settings, monkeypatch):
    real = publish.on_branch
    monkeypatch.setattr(
        publish, "on_branch", lambda *given: real(*given).withColumn("tags", F.lit("something else"))
    )
    with pytest.raises(publish.AuditError, match="differ from those"):
        replayed(torn, settings)
    assert torn.table(tables.EVENTS.full_name).where("record_type = 'Invalid'").count() == TORN


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "yesterday", "--to", "2026-11-21"], "'yesterday' is not a time"),
        (["--from", "2026-11-21", "--to", "2026-11-21T00:00Z"], "is not before"),
    ],
)
def test_a_time_that_is_none_is_refused(arguments, said, capsys):
    with pytest.raises(SystemExit):
        job.main(arguments)
    assert said in capsys.readouterr().err
