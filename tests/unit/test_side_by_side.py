"""Which extractions the merge waits for, and what becomes of the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from spark_jobs.ingest.side_by_side import FIRST_PIECE, Extraction, next_piece, side_by_side

WAIT = 0.3


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.ingest.side_by_side.SHORT_SECONDS", WAIT)


class Clusters:
    """Extractions that end when the test says so."""

    def __init__(self, *names: str):
        self.names = [*names]
        self.may_end = {name: threading.Event() for name in names}
        self.cancelled: list[str] = []
        self.answer = {*names}
        self.work: Callable[[Extraction], None] = lambda extraction: None

    def extract(self, extraction: Extraction) -> None:
        extraction.answered = extraction.cluster in self.answer
        self.work(extraction)
        assert self.may_end[extraction.cluster].wait(30)
        if not extraction.failures and not extraction.abandoned.is_set():
            extraction.left = 0

    def cancel(self, cluster: str) -> None:
        self.cancelled.append(cluster)
        self.may_end[cluster].set()

    def end(self, *names: str) -> None:
        for name in names:
            self.may_end[name].set()


def test_all_have_ended():
    clusters = Clusters("a", "b")
    clusters.end("a", "b")
    with side_by_side(clusters.names, clusters.extract, clusters.cancel) as extractions:
        assert extractions.wait(30) == []
    assert (extractions.failures, extractions.unfinished, clusters.cancelled) == ({}, {}, [])


def test_without_clusters_there_is_nothing_to_wait_for():
    clusters = Clusters()
    with side_by_side(clusters.names, clusters.extract, clusters.cancel) as extractions:
        assert extractions.wait(30) == []


def test_a_slow_one_is_waited_for_since_the_last_of_the_others_has_ended():
    clusters = Clusters("a", "b", "slow")
    clusters.end("a")
    threading.Timer(2 * WAIT, clusters.end, ["b"]).start()
    with side_by_side(clusters.names, clusters.extract, clusters.cancel) as extractions:
        assert extractions.wait(4 * WAIT) == ["slow"]
        ended = time.monotonic()
        assert not clusters.may_end["slow"].is_set()
    assert clusters.cancelled == ["slow"]
    assert time.monotonic() - ended < 2, "what is abandoned ends at once"
    assert [*extractions.failures] == ["slow"]
    assert "raise extract.wait_seconds" in extractions.failures["slow"][0]


def test_a_silent_one_and_one_that_is_published_in_part_are_waited_for_a_short_time():
    clusters = Clusters("a", "silent", "backlog")
    clusters.answer.remove("silent")

    def work(extraction: Extraction) -> None:
        if extraction.cluster == "backlog":
            extraction.left = 7

    clusters.work = work
    clusters.end("a")
    started = time.monotonic()
    with side_by_side(clusters.names, clusters.extract, clusters.cancel) as extractions:
        assert extractions.wait(30) == ["silent", "backlog"]
    assert WAIT <= time.monotonic() - started < 5
    assert "no nameserver has answered" in extractions.failures["silent"][0]
    assert extractions.unfinished == {"backlog": 7}


def test_nobody_waits_for_a_silent_one_that_had_time_to_answer_while_the_others_were_read(monkeypatch):
    monkeypatch.setattr("spark_jobs.ingest.side_by_side.SHORT_SECONDS", 2.0)
    clusters = Clusters("a", "silent")
    clusters.answer.remove("silent")
    threading.Timer(2.2, clusters.end, ["a"]).start()
    started = time.monotonic()
    with side_by_side(clusters.names, clusters.extract, clusters.cancel) as extractions:
        assert extractions.wait(30) == ["silent"]
        assert time.monotonic() - started < 4


def test_one_that_failed_hurries_nobody():
    clusters = Clusters("down", "healthy")
    clusters.end("down")
    clusters.work = lambda each: each.failures.update({"down": "refused"} if each.cluster == "down" else {})
    threading.Timer(4 * WAIT, clusters.end, ["healthy"]).start()
    with side_by_side(clusters.names, clusters.extract, clusters.cancel) as extractions:
        assert extractions.wait(WAIT) == []
    assert extractions.failures == {"down": ["refused"]}


@pytest.mark.parametrize("names", [["only"], ["a", "b"]])
def test_where_none_has_ended_they_are_waited_for(names):
    clusters = Clusters(*names)
    threading.Timer(4 * WAIT, clusters.end, names).start()
    with side_by_side(clusters.names, clusters.extract, clusters.cancel) as extractions:
        assert extractions.wait(WAIT) == []
    assert clusters.cancelled == []


def test_one_that_has_published_something_is_unfinished_and_has_not_failed():
    clusters = Clusters("a", "slow")
    clusters.work = lambda extraction: setattr(extraction, "left", 7)
    clusters.end("a")
    with side_by_side(clusters.names, clusters.extract, clusters.cancel) as extractions:
        assert extractions.wait(30) == ["slow"]
    assert (extractions.failures, extractions.unfinished) == ({}, {"slow": 7})


def test_failures_and_errors_of_an_extraction():
    clusters = Clusters("a", "b")
    clusters.end("a", "b")

    def work(extraction: Extraction) -> None:
        if extraction.cluster == "a":
            extraction.failures = {"a/t/b/0": "gone"}
        else:
            raise OSError("disk")

    clusters.work = work
    with side_by_side(clusters.names, clusters.extract, clusters.cancel) as extractions:
        assert extractions.wait(30) == []
    assert extractions.failures == {"a": ["gone"]}
    with pytest.raises(OSError, match="disk"):
        extractions.raise_error()


def test_they_are_abandoned_too_where_the_block_fails():
    clusters = Clusters("a")
    with (
        pytest.raises(RuntimeError, match="merge"),
        side_by_side(clusters.names, clusters.extract, clusters.cancel),
    ):
        raise RuntimeError("merge")
    assert clusters.cancelled == ["a"]


def test_a_piece_takes_about_ten_seconds_after_the_first():
    assert next_piece(100_000, 2.0) == 500_000
    assert next_piece(100, 2.0) == FIRST_PIECE
    assert next_piece(0, 0.0) == FIRST_PIECE
