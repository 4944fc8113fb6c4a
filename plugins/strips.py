"""Draw the life of a message: one strip for its producer and one per consumer group, on one axis of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from spark_jobs.checks.formatting import milliseconds, precise
from spark_jobs.lookup import wording
from spark_jobs.lookup.life import Attempt, Lane, Life

WIDTH = 1000
# The least width of a mark, and of the gap between two times.
_MARK, _GAP = 5.0, 1.0
_SUCCESS = ("success", "timeout")
_UNENDED = ("in_flight", "not_returned")


@dataclass(frozen=True)
class Mark:
    """A mark on a strip: where, how it looks (`send`, `decision`, `success`, `failure` or `unended`), and what it is."""

    x: float
    width: float
    look: str
    text: str


@dataclass(frozen=True)
class Strip:
    """The marks of the producer or of a lane."""

    name: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Drawing:
    """The strips, and the ends of their axis in words."""

    strips: tuple[Strip, ...]
    start: str
    span: str


def drawing(life: Life) -> Drawing | None:
    """The strips of a message; None if no time of it is known."""
    attempts = [attempt for lane in life.lanes for attempt in lane.attempts]
    times = [step.at for step in life.steps if step.at]
    times += [time for attempt in attempts for time in (attempt.begun_at, _end(attempt)) if time]
    if not times:
        return None
    place = _axis(times)
    strips = []
    marks = tuple(
        Mark(
            min(place(step.at), WIDTH - _MARK),
            _MARK,
            "send" if step.what in ("sent", "stored") else "decision",
            f"{precise(step.at)}: {step.text}",
        )
        for step in life.steps
        if step.at
    )
    if marks:
        strips.append(Strip("producer and broker", marks))
    strips += [Strip(lane_name(lane), tuple(_marks(lane, place))) for lane in life.lanes]
    first, last = min(times), max(times)
    return Drawing(tuple(strips), precise(first), milliseconds((last - first) / timedelta(milliseconds=1)))


def lane_name(lane: Lane) -> str:
    """The consumer group of a lane and, of a broadcast group, the client."""
    name = lane.consumer_group or "no group named"
    return f"{name}, client {lane.client}" if lane.client else name


def _marks(lane: Lane, place: Callable[[datetime], float]) -> Iterator[Mark]:
    for attempt in lane.attempts:
        if attempt.begun_at is None:
            continue
        end = _end(attempt)
        x = min(place(attempt.begun_at), WIDTH - _MARK)
        width = max(place(end) - x, _MARK) if end else WIDTH - x
        look = (
            "success"
            if attempt.outcome in _SUCCESS
            else "unended"
            if attempt.outcome in _UNENDED
            else "failure"
        )
        text = f"{precise(attempt.begun_at)}: {wording.ATTEMPTS.get(attempt.outcome, attempt.outcome)}"
        yield Mark(x, width, look, text)


def _end(attempt: Attempt) -> datetime | None:
    if attempt.ended_at is None and attempt.begun_at and attempt.duration:
        return attempt.begun_at + timedelta(milliseconds=min(attempt.duration.ms, 1e11))
    return attempt.ended_at


def _axis(times: list[datetime]) -> Callable[[datetime], float]:
    """The place of each of the times.

    They are in order, and a longer gap is wider, by its logarithm: the milliseconds of a listener are seen beside the hours of a
    retry.
    """
    ordered = sorted(set(times))
    places, at = {ordered[0]: 0.0}, 0.0
    for before, time in zip(ordered, ordered[1:], strict=False):
        at += _GAP + math.log1p((time - before) / timedelta(milliseconds=1))
        places[time] = at
    return lambda time: round(places[time] / at * WIDTH, 1) if at else 0.0
