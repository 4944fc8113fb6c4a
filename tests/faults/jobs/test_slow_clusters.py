"""A cluster that is slow, silent or down delays and fails no other one."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.ingest import raw
from spark_jobs.jobs import ingest
from spark_jobs.lake.tables import EVENTS, RAW
from tests.faults.jobs.world import CLUSTER, Difference, World

OTHER = "other"
IN_PIECES = 200
BACKLOG = 5_000


@contextmanager
def silent_address() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def add_cluster(world: World, namesrv: str, *topics: str) -> None:
    """Configure another cluster beside the world's."""
    clusters = json.loads(world.environment["TRACE_CLUSTERS"])
    clusters.append(
        {"name": OTHER, "namesrv": [namesrv], "trace_topics": [*topics] or ["RMQ_SYS_TRACE_TOPIC"]}
    )
    world.extra["TRACE_CLUSTERS"] = json.dumps(clusters)


def run(world: World, *arguments: str) -> int:
    return world._here(ingest.main, ["--run-id", "cycle", *arguments])


def test_a_silent_cluster(world: World, capfd: pytest.CaptureFixture[str], tmp_path: Path):
    world.write(400)
    failures = tmp_path / "failures.json"
    with silent_address() as address:
        add_cluster(world, address)
        capfd.readouterr()
        assert run(world, "--failures", str(failures)) == 0
    output = " ".join(capfd.readouterr().err.split())
    assert re.search(
        f"slow {OTHER}: the records of the other clusters are merged meanwhile.* merged ", output
    )
    assert (
        f"failed cluster {OTHER}: nothing was read while the other clusters were read and merged: no nameserver"
        in output
    )
    assert [*json.loads(failures.read_text())] == [OTHER]
    assert world.compare(RAW, EVENTS) == Difference(400, lost=0, doubled=0, wrong=0)


def test_a_cluster_that_is_down(world: World, capfd: pytest.CaptureFixture[str]):
    world.write(400)
    add_cluster(world, "127.0.0.1:1")
    capfd.readouterr()
    assert run(world) == 1, "a person who runs the job sees that a cluster failed"
    output = " ".join(capfd.readouterr().err.split())
    assert "no nameserver answers" in output
    assert f"failed queue {CLUSTER}" not in output
    assert world.compare(RAW, EVENTS) == Difference(400, lost=0, doubled=0, wrong=0)


def test_a_backlog_is_read_in_pieces_while_the_others_are_merged(
    world: World, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """It takes much longer than the merge: each message is read by a task of its own, almost."""
    monkeypatch.setattr(ingest, "FIRST_PIECE", IN_PIECES)
    slow = replace(world, topics=[f"{world.topics[0]}-slow"], extra={}, messages={})
    slow.make_topics()
    world.write(40)
    slow.write(BACKLOG)
    add_cluster(world, world.sandbox.namesrv, *slow.topics)
    world.extra |= {"TRACE_EXTRACT__MAX_OFFSETS_PER_PARTITION": "2"}
    capfd.readouterr()
    assert run(world) == 0, "a backlog is no failure"
    output = " ".join(capfd.readouterr().err.split())
    assert (found := re.search(rf"slow {OTHER}: (\d+) messages were left after the last piece", output)), (
        output
    )
    assert world.compare(RAW, EVENTS) == Difference(40, lost=0, doubled=0, wrong=0)
    read = BACKLOG - int(found[1])
    assert IN_PIECES <= read < BACKLOG
    assert slow.compare(RAW).lost <= BACKLOG - read
    world.extra["TRACE_EXTRACT__MAX_OFFSETS_PER_PARTITION"] = "5000"
    for _ in range(10):
        assert run(world) == 0
        if (left := slow.compare(RAW).lost) == 0:
            break
    assert left == 0
    assert slow.merge() == 0
    assert slow.compare(RAW, EVENTS) == Difference(BACKLOG, lost=0, doubled=0, wrong=0)


def test_a_topic_that_fails_leaves_the_others_of_its_cluster_to_be_read_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ingest, "FIRST_PIECE", IN_PIECES)
    other = replace(world, topics=[f"{world.topics[0]}-other"], extra={}, messages={})
    other.make_topics()
    world.write(40)
    other.write(5 * IN_PIECES)
    add_cluster(world, world.sandbox.namesrv, *other.topics, "no-such-topic")
    assert run(world) == 1
    assert other.compare(RAW, EVENTS) == Difference(5 * IN_PIECES, lost=0, doubled=0, wrong=0)
    assert world.compare(RAW, EVENTS) == Difference(40, lost=0, doubled=0, wrong=0)


def test_a_nameserver_that_is_lost_after_the_plan_fails_its_cluster_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    real, failures = raw.read, tmp_path / "failures.json"

    def read(spark, cluster, *others):  # type: ignore[no-untyped-def]
        lost = cluster.model_copy(update={"namesrv": ["127.0.0.1:1"]})
        return real(spark, lost if cluster.name == OTHER else cluster, *others)

    monkeypatch.setattr(raw, "read", read)
    world.write(40)
    add_cluster(world, world.sandbox.namesrv, *world.topics)
    assert run(world, "--failures", str(failures)) == 0
    found = json.loads(failures.read_text())
    assert [*found] == [OTHER]
    assert "no nameserver answers" in found[OTHER][0]
    assert world.compare(RAW, EVENTS) == Difference(40, lost=0, doubled=0, wrong=0)


def test_what_an_extraction_raises_fails_the_job(world: World, monkeypatch: pytest.MonkeyPatch):
    """The records of the other clusters are merged before."""
    real = ingest.extract_and_report

    def fails(spark, cluster, *others):  # type: ignore[no-untyped-def]
        if cluster.name == OTHER:
            raise OSError("No space left on device")
        return real(spark, cluster, *others)

    monkeypatch.setattr(ingest, "extract_and_report", fails)
    world.write(40)
    add_cluster(world, world.sandbox.namesrv, *world.topics)
    with pytest.raises(OSError, match="No space left"):
        run(world)
    assert world.compare(RAW, EVENTS) == Difference(40, lost=0, doubled=0, wrong=0)
