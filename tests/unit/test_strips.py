"""The drawing of a message has all marks on one axis, in order of time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from plugins.strips import WIDTH, drawing
from spark_jobs.lookup.life import Attempt, Duration, Lane, Life, Step

SENT = datetime(2026, 11, 20, 12)
NOTHING = Life("c", "m", (), (), None, (), (), 0, (), (), (), 0, (), None, "p", None, 0, 0)


def after(ms: float) -> datetime:
    return SENT + timedelta(milliseconds=ms)


def attempt(begun: float, ended: float | None, outcome: str, ms: float | None = None) -> Attempt:
    took = None if ms is None else Duration(ms, None)
    return Attempt(
        "r", after(begun), None if ended is None else after(ended), "x", 0, outcome, None, took, ()
    )


def lane(*attempts: Attempt, group: str | None = "g", client: str | None = None) -> Lane:
    return Lane(group, client, "succeeded", "consumed", 0, None, attempts, len(attempts))


def test_a_message_without_times_is_not_drawn():
    assert drawing(NOTHING) is None
    assert drawing(replace(NOTHING, steps=(Step(None, "sent", "sent"),))) is None


def test_marks_are_in_order_of_time_and_hours_leave_room_for_milliseconds():
    steps = (
        Step(SENT, "sent", "sent"),
        Step(after(5), "stored", "stored"),
        Step(after(9), "commit", "committed"),
    )
    lanes = (
        lane(attempt(10, 12, "exception"), attempt(7_200_000, 7_200_001, "success")),
        lane(attempt(20, None, "not_returned"), group="h"),
        lane(attempt(30, None, "success", 40), client="10.0.0.1@7"),
    )
    found = drawing(replace(NOTHING, steps=steps, lanes=lanes))
    producer, g, h, broadcast = found.strips
    assert [s.name for s in found.strips] == ["producer and broker", "g", "h", "g, client 10.0.0.1@7"]
    assert [m.look for m in producer.marks] == ["send", "send", "decision"]
    assert [m.look for strip in (g, h, broadcast) for m in strip.marks] == [
        *("failure", "success", "unended", "success"),
    ]
    in_time = [*producer.marks, g.marks[0], h.marks[0], broadcast.marks[0], g.marks[1]]
    places = [mark.x for mark in in_time]
    assert places == sorted(places)
    assert all(later - earlier > 10 for earlier, later in zip(places, places[1:], strict=False))
    assert all(mark.x >= 0 and mark.width > 0 and mark.x + mark.width <= WIDTH for mark in in_time)
    assert h.marks[0].x + h.marks[0].width == WIDTH, "it may still run"
    assert (found.start, found.span) == ("2026-11-20 12:00:00.000", "2 h")


def test_a_clock_that_went_back_is_drawn():
    (strip,) = drawing(replace(NOTHING, lanes=(lane(attempt(10, 5, "success")),))).strips
    assert strip.marks[0].width > 0
