"""The plan of a run: exact ranges, gaps that are reported, queues that fail alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from spark_jobs.ingest.plan import Plan, handle_missing_queues, plan, without_queue
from spark_jobs.lake.offsets import Position, Queue, from_json, to_json, watermarks
from spark_jobs.rocketmq.client import Bounds
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.settings import Cluster

A, B = Queue("c", "t", "a", 0), Queue("c", "t", "b", 0)
NOW, MARGIN = 1_000_000, 1_000


@dataclass(frozen=True)
class Stored:
    store_time: int
    physical_offset: int
    body_crc: int


@dataclass(frozen=True)
class Log:
    """The offsets [first, end) of a queue; a message's store time is its offset, `life` marks its bytes."""

    first: int
    end: int
    life: int = 0
    time_of_zero: int = 0
    from_master: bool = True


class Away(RocketMQError):
    pass


class Brokers:
    """Answers for queues as a broker does; a queue without a log is on a broker that is away."""

    def __init__(self, logs: dict[Queue, Log]):
        self.logs = logs

    def bounds(self, queue: Queue) -> Bounds:
        if queue not in self.logs:
            raise Away(f"queue {queue}: broker is away")
        log = self.logs[queue]
        return Bounds(log.first, log.end, log.from_master)

    def message_at(self, queue: Queue, offset: int) -> Stored | None:
        log = self.logs[queue]
        if not log.first <= offset < log.end:
            return None
        return Stored(log.time_of_zero + offset, 100 * offset + log.life, log.life)


def planned(logs: dict[Queue, Log], committed=None, max_offsets: int = 10**6, queues=(A, B)) -> Plan:
    return plan(Brokers(logs), queues, committed or {}, NOW, MARGIN, max_offsets)


def ranges(done: Plan) -> dict[Queue, tuple[int, int]]:
    return {r.queue: (r.start, r.end) for r in done.ranges}


def test_a_first_run_reads_all_that_the_broker_has():
    done = planned({A: Log(5, 20), B: Log(0, 3)})
    assert ranges(done) == {A: (5, 20), B: (0, 3)}
    assert done.gaps == []
    assert done.positions[A] == Position(20, 0, 19, 1900, 0, complete_to=NOW - MARGIN)


def test_a_next_run_reads_only_what_is_new():
    logs = {A: Log(0, 20), B: Log(0, 3)}
    before = planned(logs).positions
    assert ranges(planned(logs, before)) == {}
    assert ranges(planned({**logs, A: Log(0, 25)}, before)) == {A: (20, 25)}


def test_a_backlog_proceeds_in_steps():
    logs, positions, read = {A: Log(0, 25), B: Log(0, 3)}, {}, []
    while steps := ranges(done := planned(logs, positions, max_offsets=20)):
        positions = done.positions
        read.append(steps)
    assert read == [{A: (0, 17), B: (0, 3)}, {A: (17, 25)}]


def test_queues_with_little_to_read_leave_their_share_to_the_others():
    names = [Queue("c", "t", name, 0) for name in "abcd"]
    logs = dict(zip(names, [Log(0, 100), Log(0, 1), Log(0, 60), Log(5, 5)], strict=True))
    done = planned(logs, max_offsets=41, queues=names)
    assert list(ranges(done).values()) == [(0, 20), (0, 1), (0, 20)]
    assert ranges(planned(logs, max_offsets=1, queues=names))[names[0]] == (0, 1)


def test_a_queue_that_was_not_read_to_its_end_is_complete_up_to_its_last_message():
    done = planned({A: Log(0, 25)}, max_offsets=10, queues=[A])
    assert done.positions[A].complete_to == 9
    assert done.steps[0].lag == 15


def test_what_the_broker_deleted_is_a_gap_and_reading_goes_on_behind_it():
    before = planned({A: Log(0, 20)}, queues=[A]).positions
    done = planned({A: Log(50, 60)}, before, queues=[A])
    assert ranges(done) == {A: (50, 60)}
    (gap,) = done.gaps
    assert (gap.missing.start, gap.missing.end, gap.from_time, gap.to_time) == (20, 50, 19, 50)


def test_exactly_at_the_edge_is_no_gap():
    before = planned({A: Log(0, 20)}, queues=[A]).positions
    assert planned({A: Log(20, 30)}, before, queues=[A]).gaps == []


@pytest.mark.parametrize(
    ("log", "what"),
    [
        (Log(0, 10, life=1), "read up to offset 19, but the broker ends at 9"),
        (Log(0, 99, life=1), "the message at offset 19 is a different one"),
        (Log(50, 99, life=1, time_of_zero=-49), "was stored before the one at 19"),
    ],
    ids=["shorter", "grown past the resume point", "grown, and its beginning expired"],
)
def test_a_recreated_topic_stops_its_queue_alone(log, what):
    before = planned({A: Log(0, 20), B: Log(0, 3)}).positions
    done = planned({A: log, B: Log(0, 5)}, before)
    assert what in done.failures[str(A)]
    assert f"make ingest-reset QUEUE={A}" in done.failures[str(A)]
    assert ranges(done) == {B: (3, 5)}
    assert done.positions[A] == before[A]


def test_positions_rebuilt_from_rows_know_no_physical_offset():
    before = {A: replace(planned({A: Log(0, 20)}, queues=[A]).positions[A], physical_offset=None)}
    assert ranges(planned({A: Log(0, 25)}, before, queues=[A])) == {A: (20, 25)}


def test_a_broker_that_is_away_fails_its_queue_alone_and_holds_the_watermark():
    before = planned({A: Log(0, 20), B: Log(0, 3)}).positions
    later = plan(Brokers({A: Log(0, 30)}), (A, B), before, NOW + 60_000, MARGIN, 10**6)
    assert ranges(later) == {A: (20, 30)}
    assert "away" in later.failures[str(B)]
    assert watermarks(before) == {"c": NOW - MARGIN}
    assert watermarks(later.positions) == {"c": NOW - MARGIN}


def test_a_slave_is_no_proof_that_a_queue_was_read_to_its_end():
    """It may lag behind its master, so the queue is complete only up to what came."""
    before = planned({A: Log(0, 20)}, queues=[A]).positions
    done = planned({A: Log(0, 25, from_master=False)}, {}, queues=[A])
    assert done.positions[A].complete_to == 24
    behind = planned({A: Log(0, 10, from_master=False)}, before, queues=[A])
    assert "its slave lags behind" in behind.failures[str(A)]
    assert behind.positions == before


def test_a_queue_that_turns_out_to_be_unreadable_is_left_out_alone():
    before = planned({A: Log(0, 20), B: Log(0, 3)}).positions
    done = planned({A: Log(50, 60), B: Log(0, 5)}, before)
    rest = without_queue(done, A, before, "a hole at 55")
    assert ranges(rest) == {B: (3, 5)}
    assert rest.gaps == []
    assert rest.positions == {A: before[A], B: done.positions[B]}
    assert rest.failures == {str(A): "a hole at 55"}
    assert without_queue(planned({A: Log(0, 9)}, queues=[A]), A, {}, "gone").positions == {
        A: Position(next=0, unanswered=True)
    }


def test_a_queue_that_was_never_read_holds_the_watermark_of_a_new_cluster_at_the_beginning():
    assert watermarks(planned({A: Log(0, 20)}).positions) == {"c": 0}


@pytest.mark.parametrize(
    "new", [None, Log(0, 900), Log(0, 0, from_master=False)], ids=["away", "long", "slave"]
)
def test_a_new_queue_moves_the_watermark_of_its_cluster_not_back(new):
    """It stands still until the queue is read to its end: else all marts would be computed again, as of 1970."""
    before = planned({A: Log(0, 20)}, queues=[A]).positions
    logs = {A: Log(0, 30)} | ({} if new is None else {B: new})
    done = plan(Brokers(logs), (A, B), before, NOW + 60_000, MARGIN, 40)
    assert watermarks(before) == watermarks(done.positions) == {"c": NOW - MARGIN}
    read = plan(Brokers({A: Log(0, 30), B: Log(0, 3)}), (A, B), done.positions, NOW + 90_000, MARGIN, 10**6)
    if new is None:
        assert ranges(read) == {B: (0, 3)}
        assert watermarks(read.positions) == {"c": NOW + 90_000 - MARGIN}


def test_what_expired_after_a_queue_was_seen_empty_is_a_gap():
    before = planned({A: Log(0, 0)}, queues=[A]).positions
    (gap,) = planned({A: Log(50, 60)}, before, queues=[A]).gaps
    assert (gap.missing.start, gap.missing.end, gap.from_time, gap.to_time) == (0, 50, NOW - MARGIN, 50)


def test_positions_survive_their_json_and_those_of_earlier_releases_are_understood():
    positions = planned({A: Log(0, 20)}).positions
    assert positions[B].unanswered
    assert from_json(to_json(positions)) == positions
    assert '"unanswered":false' not in to_json(positions)
    assert from_json('{"c/t/b/0":{"next":0,"epoch":0,"complete_to":0}}') == {B: Position(0, unanswered=True)}


def test_a_queue_that_could_not_be_asked_at_first_has_no_gap():
    """Nothing of it was ever read, so its history begins where the broker's does."""
    before = planned({A: Log(0, 20)}).positions
    done = planned({A: Log(0, 20), B: Log(50, 60)}, before)
    assert ranges(done) == {B: (50, 60)}
    assert done.gaps == []


def test_a_gap_up_to_the_end_of_a_queue_lasts_until_it_was_found():
    before = planned({A: Log(0, 20)}, queues=[A]).positions
    done = planned({A: Log(50, 50)}, before, queues=[A])
    assert [(gap.from_time, gap.to_time) for gap in done.gaps] == [(19, NOW)]


def watched(topics: list[str], queues) -> Plan:
    before = planned({A: Log(0, 20), B: Log(0, 3)}).positions
    done = plan(Brokers({A: Log(0, 30)}), queues, before, NOW + 60_000, MARGIN, 10**6)
    handle_missing_queues(done, Cluster(name="c", namesrv=["h:1"], trace_topics=topics), set(topics))
    return done


def test_a_queue_that_the_route_has_no_more_is_a_failure():
    done = watched(["t"], [A])
    assert "no longer in the topic's route" in done.failures[str(B)]
    assert watermarks(done.positions) == {"c": NOW - MARGIN}


def test_a_topic_that_is_not_configured_any_more_holds_no_watermark_back():
    done = watched(["other"], [])
    assert done.failures == {}
    assert all(position.retired for position in done.positions.values())
    assert watermarks(done.positions) == {}
    back = plan(Brokers({A: Log(0, 30)}), [A], done.positions, NOW, MARGIN, 10**6)
    handle_missing_queues(back, Cluster(name="c", namesrv=["h:1"], trace_topics=["t"]), {"t"})
    assert not back.positions[A].retired
    assert back.positions[B].retired
    assert back.failures == {}, "nothing waits for a retired queue that the route does not have"


def test_a_retired_queue_that_comes_back_moves_the_watermark_not_back():
    before = {A: Position(20, 0, 19, 1900, 0, complete_to=NOW), B: Position(3, 0, 2, 200, 0, 5, retired=True)}
    done = plan(Brokers({A: Log(0, 20), B: Log(0, 900)}), (A, B), before, NOW + 9_000, MARGIN, 10)
    assert done.positions[B] == Position(13, 0, 12, 1200, 0, complete_to=NOW)
    assert watermarks(done.positions) == {"c": NOW}


def test_an_epoch_starts_at_the_beginning():
    before = {A: Position(next=0, epoch=1, complete_to=7)}
    done = planned({A: Log(0, 4)}, before, queues=[A])
    assert [(r.epoch, r.start, r.end) for r in done.ranges] == [(1, 0, 4)]


def test_what_is_missing_at_the_beginning_of_an_epoch_was_stored_after_the_queue_was_complete():
    before = {A: Position(next=0, epoch=1, complete_to=7)}
    (gap,) = planned({A: Log(50, 60)}, before, queues=[A]).gaps
    assert (gap.missing.epoch, gap.missing.start, gap.missing.end, gap.from_time) == (1, 0, 50, 7)
