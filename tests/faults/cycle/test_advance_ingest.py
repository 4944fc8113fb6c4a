"""A cycle without new messages starts no JVM: it moves the watermarks with commits without rows, or leaves all to Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Transaction

from spark_jobs.jobs import advance_ingest
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import CommittedOffsets, Positions, committed, watermarks
from spark_jobs.lake.tables import EVENTS, OBSERVATIONS, RAW, Column
from spark_jobs.settings import Cluster
from tests.faults.jobs.world import CLUSTER, Difference, World

JOB = "spark_jobs.jobs.advance_ingest"
NO_JAVA = {"JAVA_HOME": "/nowhere"}  # a JVM cannot be started


@pytest.fixture
def merged(world: World) -> World:
    """All messages of the broker are in both tables."""
    world.write(100)
    assert world.extract() == 0
    assert world.merge() == 0
    return world


def offsets(world: World) -> tuple[CommittedOffsets, CommittedOffsets]:
    raw, events = committed(world.settings, RAW), committed(world.settings, EVENTS)
    assert raw is not None
    assert events is not None
    return raw, events


def observations(world: World) -> int:
    return len(lake(world.settings).load_table(OBSERVATIONS.name).scan().to_arrow())


def test_nothing_is_new(merged: World, tmp_path: Path):
    before, asked = offsets(merged), observations(merged)
    failures = tmp_path / "failures.json"
    run = merged.run(JOB, "--run-id", "idle", "--failures", str(failures), **NO_JAVA)
    assert run.code == 0, run.output
    assert f"{CLUSTER}: no new message; complete to " in run.output
    assert "Spark was not started" in run.output
    assert json.loads(failures.read_text()) == {}
    assert observations(merged) == asked + 1
    after = offsets(merged)
    for old, new in zip(before, after, strict=True):
        assert watermarks(new.positions)[CLUSTER] > watermarks(old.positions)[CLUSTER]
        assert new.change_seq == old.change_seq
    assert after[0].positions == after[1].positions
    newest = lake(merged.settings).load_table(RAW.name).current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    assert newest.summary["trace.run_id"] == "idle"
    assert int(newest.summary["total-records"] or 0) >= 100
    # Spark goes on from there.
    merged.write(50)
    assert merged.extract() == 0
    assert merged.merge() == 0
    assert merged.compare(RAW, EVENTS) == Difference(150, lost=0, doubled=0, wrong=0)


def test_a_new_message_is_work_and_nothing_is_changed(merged: World):
    before, asked = offsets(merged), observations(merged)
    merged.write(2)
    assert merged.run(JOB, **NO_JAVA).code == advance_ingest.WORK
    assert (offsets(merged), observations(merged)) == (before, asked)
    assert merged.extract() == 0
    before = offsets(merged)
    assert merged.run(JOB, **NO_JAVA).code == advance_ingest.WORK, "it is not merged yet"
    assert offsets(merged) == before


def later(positions: Positions) -> Positions:
    return {
        queue: replace(position, complete_to=position.complete_to + 1)
        for queue, position in positions.items()
        if queue.cluster == CLUSTER
    }


def test_a_job_that_is_killed_between_its_commits_leaves_work(merged: World, monkeypatch: pytest.MonkeyPatch):
    """Only raw has the new watermark: the next merge takes it over."""
    raw, events = offsets(merged)
    monkeypatch.setattr(advance_ingest, "EVENTS", RAW)  # whose head it is not
    assert not advance_ingest._publish(merged.settings, raw, events, later(raw.positions), "killed")
    half = offsets(merged)
    assert (half[0].positions, half[1]) == (raw.positions | later(raw.positions), events)
    assert merged.run(JOB, **NO_JAVA).code == advance_ingest.WORK
    assert merged.merge() == 0
    assert offsets(merged)[1].positions == half[0].positions


def test_another_run_publishes_between_load_and_commit(merged: World, monkeypatch: pytest.MonkeyPatch):
    """pyiceberg would commit again on top of it, with the offsets of before."""
    raw, events = offsets(merged)
    merged.write(10)
    begin = Transaction.update_snapshot

    def late(self: Transaction, *arguments: Any, **named: Any) -> Any:
        monkeypatch.undo()
        assert merged.extract() == 0
        return begin(self, *arguments, **named)

    monkeypatch.setattr(Transaction, "update_snapshot", late)
    assert not advance_ingest._publish(merged.settings, raw, events, later(raw.positions), "too late")
    after = offsets(merged)
    assert sum(each.next for each in after[0].positions.values()) == 10 + sum(
        each.next for each in raw.positions.values()
    )
    assert merged.merge() == 0
    assert merged.compare(RAW, EVENTS) == Difference(110, lost=0, doubled=0, wrong=0)


def test_spark_runs_once_an_hour_and_where_a_column_is_missing(
    merged: World, monkeypatch: pytest.MonkeyPatch
):
    (cluster,) = (Cluster(**each) for each in json.loads(merged.environment["TRACE_CLUSTERS"]))
    assert advance_ingest.advance([cluster], merged.settings, "idle") is not None
    with monkeypatch.context() as patch:
        patch.setattr(advance_ingest, "MOST_SECONDS_WITHOUT_CHECKS", 0)
        assert advance_ingest.advance([cluster], merged.settings, "idle") is None
        away = cluster.model_copy(update={"namesrv": ["127.0.0.1:9"]})
        found = advance_ingest.advance([away], merged.settings, "idle")
        assert found is not None, "Spark runs, and there is nothing that it can read"
        assert [*found[1]] == [cluster.name]
    assert tables.missing(lake(merged.settings)) == []
    wider = replace(OBSERVATIONS, columns=(*OBSERVATIONS.columns, Column("added", "int", "of a new version")))
    monkeypatch.setattr(tables, "ALL", (wider,))
    assert tables.missing(lake(merged.settings)) == [f"{OBSERVATIONS.name}.added"]
    assert advance_ingest.advance([cluster], merged.settings, "idle") is None


def test_another_run_publishes_meanwhile(merged: World):
    raw, events = offsets(merged)
    merged.write(10)
    assert merged.extract() == 0
    after = offsets(merged)
    assert not advance_ingest._publish(merged.settings, raw, events, later(raw.positions), "too late")
    assert offsets(merged) == after


def test_a_failed_cluster_is_reported_and_keeps_its_watermark(merged: World, tmp_path: Path):
    before = offsets(merged)
    failures = tmp_path / "failures.json"
    away = "127.0.0.1:9"
    clusters = json.loads(merged.environment["TRACE_CLUSTERS"]) + [
        {"name": "away", "namesrv": [away], "trace_topics": ["any"]}
    ]
    run = merged.run(JOB, "--failures", str(failures), TRACE_CLUSTERS=json.dumps(clusters), **NO_JAVA)
    assert run.code == 0, run.output
    found = json.loads(failures.read_text())
    assert found.keys() == {"away"}
    assert away in found["away"][0]
    marks = [watermarks(each.positions) for each in (before[0], offsets(merged)[0])]
    assert marks[0][CLUSTER] < marks[1][CLUSTER]
    assert "away" not in marks[1]
    assert merged.run(JOB, TRACE_CLUSTERS=json.dumps(clusters), **NO_JAVA).code == 1
