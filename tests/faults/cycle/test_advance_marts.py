"""How few JVMs a cycle starts: one for new records, none where a build of the marts would change nothing.

Without a build, the watermarks that readers see advance by one commit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Transaction

from spark_jobs.jobs import advance_marts, marts
from spark_jobs.lake import catalog, tables
from spark_jobs.lake.offsets import committed, watermarks
from spark_jobs.mart_build import checked, due
from spark_jobs.mart_build.inputs import WITH_INPUTS, Published
from spark_jobs.mart_build.lock import one_build
from spark_jobs.process.exit_codes import WORK
from spark_jobs.serving import build as serving_build
from spark_jobs.serving.contents import current_file
from tests.faults.jobs.conftest import with_tables
from tests.faults.jobs.world import CLUSTER, World

JOB, INGEST = "spark_jobs.jobs.advance_marts", "spark_jobs.jobs.advance_ingest"
NO_JAVA = {"JAVA_HOME": "/nowhere"}  # a JVM cannot be started
LONG_AGO, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)

GAP = {"from_time": LONG_AGO, "to_time": LATER, "detected_at": LATER}


@pytest.fixture(scope="module")
def built(filled, settings, broker, java) -> World:
    """All messages of a topic are in the marts, and no others.

    Later runs ask for no broker facts: clients come and go while the tests run.
    """
    with_tables(filled, settings)
    world = World(filled, settings, broker, java, ["advance-marts"])
    world.make_topics()
    world.write(100)
    assert world.extract() == 0
    assert world.merge() == 0
    assert world.marts() == 0
    world.extra["TRACE_BROKER_FACTS__ENABLED"] = "false"
    return world


@pytest.fixture
def idle(built: World) -> World:
    """The watermark of events is ahead of that of the marts, and a build is not due."""
    for _ in range(3):  # an hour may have passed
        assert built.advance_ingest() == 0
        if reason(built) is None:
            return built
        assert built.marts() == 0
    pytest.fail(f"a build is always due: {reason(built)}")


def reason(world: World) -> str | None:
    """Why a build is due; nothing is published."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advance_marts, "commit", lambda *_: True)
        patch.setattr(advance_marts, "serve", lambda _: None)
        patch.setattr(checked, "mark", lambda *_: None)
        return advance_marts.advance(world.settings, "looks")[1]


def published(world: World) -> Published:
    found = Published.of(world.settings)
    assert found is not None
    return found


def mark(world: World) -> datetime:
    return datetime.fromisoformat(published(world).watermarks[CLUSTER]).replace(tzinfo=UTC)


def mark_of_events(world: World) -> datetime:
    events = committed(world.settings, tables.EVENTS)
    assert events is not None
    return datetime.fromtimestamp(watermarks(events.positions)[CLUSTER] / 1000, UTC)


def served_mark(world: World) -> datetime:
    with duckdb.connect(current_file(world.settings), read_only=True) as connection:
        (row,) = connection.execute("select complete_to from serving.watermarks").fetchall()
    return row[0].replace(tzinfo=UTC)


def test_readers_see_the_new_watermark_and_the_same_rows(idle: World):
    before, rows = published(idle), idle.spark.table(f"lake.{WITH_INPUTS}").count()
    run = idle.run(JOB, "--run-id", "idle", **NO_JAVA)
    assert run.code == 0, run.output
    assert "Spark was not started" in run.output
    assert mark(idle) == mark_of_events(idle) == served_mark(idle)
    after = published(idle)
    assert after.watermarks[CLUSTER] > before.watermarks[CLUSTER]
    assert (after.change_seq_to, after.definitions) == (before.change_seq_to, before.definitions)
    newest = catalog.lake(idle.settings).load_table(WITH_INPUTS).current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    assert newest.summary["trace.run_id"] == "idle"
    idle.spark.catalog.refreshTable(f"lake.{WITH_INPUTS}")
    assert idle.spark.table(f"lake.{WITH_INPUTS}").count() == rows > 0
    # Once more: not even a commit is needed.
    again = idle.run(JOB, **NO_JAVA)
    assert again.code == 0, again.output
    assert published(idle).publication_id == after.publication_id


def test_new_records_need_a_build_which_goes_on_from_there(idle: World):
    assert idle.run(JOB, **NO_JAVA).code == 0
    before = published(idle)
    idle.write(10)
    assert idle.extract() == 0
    assert idle.merge() == 0
    run = idle.run(JOB, **NO_JAVA)
    assert run.code == WORK, run.output
    assert "Spark is needed for the marts: there are new records" in run.output
    assert published(idle).publication_id == before.publication_id
    rows = idle.spark.table("lake.marts.fct_sends").count()
    idle.write(10)
    assert idle.ingest("--marts") == 0, (
        "ingest builds the marts of the records that it and others have merged"
    )
    assert published(idle).change_seq_to == change_seq(idle) == before.change_seq_to + 2
    idle.spark.catalog.refreshTable("lake.marts.fct_sends")
    assert idle.spark.table("lake.marts.fct_sends").count() > rows
    run = idle.run(JOB, **NO_JAVA)
    assert run.code == 0, run.output  # they are checked and served: `trace_marts` has nothing to do


def test_a_publication_that_is_not_finished_needs_spark(idle: World):
    row = ("cut", "marts.fct_sends", "audit_cut", 1, 1, datetime.now(UTC), None, None, None)
    name = tables.PUBLICATIONS.full_name
    idle.spark.createDataFrame([row], tables.PUBLICATIONS.schema).writeTo(name).append()
    try:
        assert reason(idle) == "an earlier publication is not finished"
    finally:
        idle.spark.sql(f"delete from {name} where publication_id = 'cut'")


def append(
    world: World, table: tables.Table, row: dict[str, Any], of_broker: bool = True
) -> Callable[[], None]:
    """Add a row of the cluster with pyiceberg; returns what takes it back."""
    loaded = catalog.lake(world.settings).load_table(table.name)
    before = loaded.current_snapshot()
    schema = schema_to_pyarrow(loaded.schema(), include_field_ids=False)
    place = {"cluster": CLUSTER} | ({"broker": "broker-a"} if of_broker else {})
    loaded.append(pa.Table.from_pylist([place | row], schema=schema))

    def back() -> None:
        if before is None:
            loaded.delete("true")
        else:
            catalog.lake(world.settings).load_table(table.name).manage_snapshots().rollback_to_snapshot(
                before.snapshot_id
            ).commit()

    return back


@pytest.mark.parametrize(
    ("table", "row", "why"),
    [
        pytest.param(tables.INGEST_GAPS, GAP, "ops.ingest_gaps has changed", id="gap"),
        pytest.param(
            tables.MESSAGE_CHECKS,
            {"checked_at": LATER},
            "broker_facts.message_checks has changed",
            id="look-up",
        ),
        pytest.param(
            tables.GROUPS, {"valid_from": LATER}, "broker_facts.groups has changed", id="a fact began"
        ),
        pytest.param(
            tables.CONSUMERS,
            {"valid_from": LONG_AGO, "valid_to": LATER},
            "broker_facts.consumers has changed",
            id="a fact ended",
        ),
        pytest.param(
            tables.OBSERVATIONS,
            {"observed_at": LATER, "reached": False},
            "brokers answer other requests than before",
            id="a broker is away",
        ),
    ],
)
def test_what_the_brokers_say_now_makes_a_build_due(
    idle: World, table: tables.Table, row: dict[str, Any], why: str
):
    back = append(idle, table, row)
    try:
        assert reason(idle) == f"{CLUSTER}: {why}"
    finally:
        back()
    assert reason(idle) is None


def test_a_bad_event_of_an_objective_makes_a_build_due(idle: World):
    burn = tables.Table("marts.slo_burn", "", ())
    for counts, is_due in (
        ({"short_bad": 0, "later_bad": 0}, False),
        ({"short_bad": 0, "later_bad": 1}, True),
    ):
        back = append(idle, burn, counts, of_broker=False)
        try:
            assert reason(idle) == (f"{CLUSTER}: an objective has bad events" if is_due else None)
        finally:
            back()


def test_a_cluster_that_stands_still_makes_no_build_due(idle: World):
    """Its facts count from a later watermark on; a gap counts at once."""
    assert idle.run(JOB, **NO_JAVA).code == 0
    (last,) = [
        due.LastBuild(**row)
        for row in catalog.lake(idle.settings).load_table(due.NEXT_BUILDS).scan().to_arrow().to_pylist()
    ]
    marks = {CLUSTER: last.watermark}
    for table, row, found in (
        (tables.OBSERVATIONS, {"observed_at": LATER, "reached": False}, []),
        (tables.INGEST_GAPS, GAP, [CLUSTER]),
    ):
        back = append(idle, table, row)
        try:
            assert [*due.by_cluster(catalog.lake(idle.settings), idle.settings, [last], marks)] == found
        finally:
            back()


def test_a_gap_that_is_in_the_marts_makes_no_build_due(idle: World):
    gaps = tables.Table(due.PUBLISHED_GAPS, "", ())
    take_back = [
        append(idle, tables.INGEST_GAPS, GAP),
        append(idle, gaps, {"gap_from": LONG_AGO, "gap_to": LATER}, of_broker=False),
    ]
    try:
        assert reason(idle) is None
    finally:
        for back in take_back:
            back()


def test_without_a_record_there_is_nothing_to_build(idle: World, tmp_path):
    empty = idle.run(JOB, **NO_JAVA, TRACE_HOME=str(tmp_path))
    assert empty.code == 0, empty.output
    assert "no records in lake.events.trace_records yet" in empty.output


def test_checks_that_were_not_evaluated_need_spark(idle: World, monkeypatch: pytest.MonkeyPatch):
    """A job may have been killed between its publication and its checks."""
    assert idle.run(JOB, **NO_JAVA).code == 0
    assert idle.run(INGEST, **NO_JAVA).code == 0
    checked.mark(idle.settings, "an earlier one")
    assert reason(idle) is not None
    checked.mark(idle.settings, published(idle).publication_id)
    assert reason(idle) is None


def test_a_commit_of_another_job_in_between_is_not_covered(idle: World, monkeypatch: pytest.MonkeyPatch):
    """pyiceberg would commit again on top of it, with the inputs of before."""
    before, begin = mark(idle), Transaction.update_snapshot

    def late(self: Transaction, *arguments, **named):
        monkeypatch.undo()
        table = catalog.lake(idle.settings).load_table(WITH_INPUTS)
        with table.transaction() as other:
            other.update_snapshot({"other": "job"}).fast_append().commit()
        return begin(self, *arguments, **named)

    monkeypatch.setattr(Transaction, "update_snapshot", late)
    _, why = advance_marts.advance(idle.settings, "too late")
    assert why == "another job has committed to the marts meanwhile"
    assert mark(idle) == before


def test_a_serving_file_that_cannot_be_built_needs_spark_whose_check_reports_it(
    idle: World, monkeypatch: pytest.MonkeyPatch
):
    def fails(settings):
        raise OSError("disk quota exceeded")

    monkeypatch.setattr(serving_build, "build", fails)
    _, why = advance_marts.advance(idle.settings, "full")
    assert why == "the serving file could not be built: OSError: disk quota exceeded"
    monkeypatch.undo()
    assert advance_marts.advance(idle.settings, "again")[1] is not None
    assert idle.marts() == 0
    assert advance_marts.advance(idle.settings, "again")[1] is None
    assert served_mark(idle) == mark(idle)


@pytest.fixture
def unread(built: World) -> World:
    """New messages are on the broker."""
    built.write(10)
    return built


def change_seq(world: World) -> int:
    events = committed(world.settings, tables.EVENTS)
    assert events is not None
    return events.change_seq


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("not asked to", ""),
        ("many records", "records are new"),
        ("full refresh", "all rows of marts are to be computed"),
        ("another build", "`another` (pid"),
        ("failure", "disk quota exceeded"),
    ],
)
def test_what_ingest_leaves_to_trace_marts(unread: World, why: str, said: str, monkeypatch, capfd):
    """The records are merged, the marts are unchanged, and the job has not failed."""

    def fails(*_: object, **__: object) -> int:
        raise OSError("disk quota exceeded")

    if why == "many records":
        monkeypatch.setattr(marts, "MOST_FEW", 5)
    if why == "full refresh":
        monkeypatch.setitem(unread.extra, "TRACE_LIMITS__GRACE_SECONDS", "299")
    if why == "failure":
        monkeypatch.setattr(marts, "build", fails)
    before, merged = published(unread), change_seq(unread)
    with one_build(unread.settings.home, "another") if why == "another build" else nullcontext():
        assert unread.ingest(*([] if why == "not asked to" else ["--marts"])) == 0
    assert said in capfd.readouterr().err
    assert published(unread) == before
    assert change_seq(unread) > merged
