"""What each consumer group did with a message: one lane per group and, of broadcast groups, client."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from spark_jobs.lookup import wording
from spark_jobs.lookup.life import Attempt, Duration, Lane
from spark_jobs.lookup.reader import Row
from spark_jobs.lookup.records import anchor
from spark_jobs.lookup.usual import Percentiles

_MS = timedelta(milliseconds=1)
ATTEMPTS = 1000
"""Attempts of a lane that are shown."""


def lanes_of(deliveries: list[Row], attempts: list[Row], percentiles: Percentiles) -> Iterator[Lane]:
    """The lanes by consumer group, then the attempts without a group.

    Args:
        deliveries: the rows of fct_deliveries of the message.
        attempts: its rows of fct_consume_attempts.
        percentiles: of the hours of both.
    """
    for delivery in sorted(deliveries, key=lambda d: (d["consumer_group"], d["broadcast_client"] or "")):
        group, client = delivery["consumer_group"], delivery["broadcast_client"]
        of_lane = [
            a
            for a in attempts
            if a["consumer_group"] == group and (not delivery["is_broadcast"] or a["client"] == client)
        ]
        key = (delivery["hour"], group, delivery["topic"])
        wait = percentiles.duration("queue_wait", delivery["queue_wait_ms"], *key)
        yield Lane(
            consumer_group=group,
            client=client,
            outcome=delivery["outcome"],
            meaning=wording.OUTCOMES[delivery["outcome"]],
            retries=delivery["retries"],
            end_to_end=percentiles.duration("end_to_end_latency", delivery["end_to_end_ms"], *key),
            attempts=tuple(_attempts(of_lane, wait, percentiles)),
            attempts_total=len(of_lane),
        )
    nameless = [a for a in attempts if a["consumer_group"] is None]
    if nameless:
        meaning = "attempts whose records do not name the consumer group"
        shown = tuple(_attempts(nameless, None, percentiles))
        yield Lane(None, None, None, meaning, 0, None, shown, len(nameless))


def _attempts(attempts: list[Row], wait: Duration | None, percentiles: Percentiles) -> Iterator[Attempt]:
    previous: datetime | None = None
    in_order = sorted(attempts, key=lambda a: (a["retry_times"] or 0, a["occurred_at"]))
    for number, row in enumerate(in_order[:ATTEMPTS]):
        if number:
            known = previous and row["begun_at"]
            wait = Duration((row["begun_at"] - previous) / _MS, None) if known else None
        duration = percentiles.duration(
            "consume_latency", row["cost_ms"], row["hour"], row["consumer_group"], row["topic"]
        )
        kinds = [
            kind for kind, seen in (("SubBefore", row["has_begin"]), ("SubAfter", row["has_end"])) if seen
        ]
        yield Attempt(
            request_id=row["request_id"],
            begun_at=row["begun_at"] or row["occurred_at"],
            ended_at=row["ended_at"],
            client=row["client"],
            retry_times=row["retry_times"],
            outcome=row["outcome"],
            wait=wait,
            duration=duration,
            records=tuple(anchor(kind, row["request_id"], None) for kind in kinds),
        )
        previous = row["ended_at"]
