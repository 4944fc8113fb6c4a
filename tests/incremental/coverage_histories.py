"""Histories of which the brokers count the messages of one hour, 08:00 until 09:00."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.incremental.cluster import Collection
from tests.incremental.histories import WATERMARK, Answers, History
from tests.incremental.offset_histories import begin, pub, record

HOUR = WATERMARK - timedelta(hours=4)
BEFORE, AFTER = HOUR - timedelta(minutes=5), HOUR + timedelta(minutes=57)
Row = tuple[int | None, int, str | None]


@dataclass(frozen=True)
class CoverageCase:
    """Offsets at two collections, what was traced in between, and what the row of each side is then.

    Attributes:
        ends: of each topic at both collections.
        offsets: by topic, of the group at both; None where it has committed none.
        producer: broker_messages, traced and unknown_reason of `orders`; None: no row.
        consumer: the same of `orders` and the group.
        pubs: messages to `orders`, of which the group attempts `attempts`.
        unpublished: attempts of messages without a Pub.
        subscribed: the expression of the group on `orders`.
    """

    producer: Row | None
    consumer: Row | None
    ends: dict[str, tuple[int, int]] = field(default_factory=lambda: {"orders": (10, 20)})
    offsets: dict[str, tuple[int | None, int | None]] = field(default_factory=lambda: {"orders": (10, 18)})
    pubs: int = 5
    attempts: int = 4
    unpublished: int = 0
    subscribed: str | None = "*"
    at: tuple[datetime, datetime] = (BEFORE, AFTER)
    broadcasting: bool = False
    special: bool = False


KNOWN, SENT = (8, 4, None), (10, 5, None)
BOTH = {"orders": (10, 20), "ns%orders": (0, 5)}
TWO_TOPICS = {"orders": (10, 20), "audit": (0, 5)}
COVERAGE: dict[str, CoverageCase] = {
    "half": CoverageCase(SENT, KNOWN),
    "more_than_all": CoverageCase(
        (2, 5, None), (1, 4, None), ends={"orders": (10, 12)}, offsets={"orders": (10, 11)}
    ),
    "untraced": CoverageCase((10, 0, None), (8, 0, None), pubs=0, attempts=0),
    "recreated": CoverageCase(
        *((None, 5, "offsets_reset"), (None, 4, "offsets_reset")),
        ends={"orders": (20, 5)},
        offsets={"orders": (20, 5)},
    ),
    "set_back": CoverageCase(SENT, (None, 4, "offsets_reset"), offsets={"orders": (10, 9)}),
    "first_commit": CoverageCase(SENT, (None, 4, "not_recorded"), offsets={"orders": (None, 18)}),
    "offset_gone": CoverageCase(SENT, (None, 4, "not_recorded"), offsets={"orders": (10, None)}),
    "by_tag": CoverageCase(SENT, (None, 4, "filtered"), subscribed="a"),
    "by_condition": CoverageCase(SENT, (None, 4, "filtered"), subscribed="weight > 3"),
    "subscription_unknown": CoverageCase(SENT, (None, 4, "filtered"), subscribed=None),
    "at_the_bounds": CoverageCase(SENT, KNOWN, at=(HOUR, HOUR + timedelta(hours=1))),
    "at_the_lag": CoverageCase(
        *((None, 5, "not_recorded"), (None, 4, "not_recorded")),
        at=(HOUR - timedelta(minutes=15), AFTER),
    ),
    "within_the_lag": CoverageCase(
        *(SENT, KNOWN),
        at=(HOUR - timedelta(minutes=14, seconds=59), HOUR + timedelta(minutes=45, seconds=1)),
    ),
    "asked_too_early": CoverageCase(
        *((None, 5, "not_recorded"), (None, 4, "not_recorded")),
        at=(BEFORE, HOUR + timedelta(minutes=40)),
    ),
    "asked_too_late": CoverageCase(
        *((None, 5, "not_recorded"), (None, 4, "not_recorded")),
        at=(BEFORE, HOUR + timedelta(minutes=61)),
    ),
    "namespace": CoverageCase(
        (15, 5, None), (10, 4, None), ends=BOTH, offsets={"orders": (10, 18), "ns%orders": (0, 2)}
    ),
    "no_pub": CoverageCase(SENT, (8, 7, None), unpublished=3),
    "no_pub_on_two_topics": CoverageCase(
        *(SENT, (None, 4, "topic_unknown")),
        ends=TWO_TOPICS,
        offsets={"orders": (10, 18), "audit": (0, 5)},
        unpublished=3,
    ),
    "broadcasts": CoverageCase(SENT, (None, 4, "broadcasting"), broadcasting=True),
    # A delayed message that was published before and begun in the hour, and a transaction that was committed in it; none of a
    # delayed message that was published in it, of one that was rolled back, and of one that was not decided.
    "arrivals": CoverageCase((10, 7, None), (8, 5, None), special=True),
}


def coverage_histories(batches: int) -> dict[str, History]:
    """By name; half of the records are in the first batch, and the others in the last."""
    return {f"coverage_{name}": _history(case, batches) for name, case in COVERAGE.items()}


def _history(case: CoverageCase, batches: int) -> History:
    history = History()

    def add(kind: Any, msg_id: str, at: datetime, **columns: Any) -> None:
        number = len(history.records)
        batch = batches if number % 2 else 1
        record = kind(number, msg_id, at, batch) if kind is begin else kind(number, msg_id, at)
        history.records.append(record | {"change_seq": batch} | columns)

    for number in range(case.pubs):
        at = HOUR + timedelta(minutes=10 * number)
        add(pub, f"m{number}", at)
        if number < case.attempts:
            add(begin, f"m{number}", at)
    for number in range(case.unpublished):
        add(begin, f"u{number}", HOUR + timedelta(minutes=number))
    if case.special:
        add(pub, "delayed", HOUR - timedelta(minutes=90), msg_type="delay")
        add(begin, "delayed", HOUR + timedelta(minutes=20))
        add(pub, "delayed_more", HOUR + timedelta(minutes=20), msg_type="delay")
        decisions = {"commit": "COMMIT_MESSAGE", "rollback": "ROLLBACK_MESSAGE", "unknown": "UNKNOW"}
        for msg_id, state in decisions.items():
            add(pub, msg_id, HOUR - timedelta(minutes=30), msg_type="half")
            add(_end, msg_id, HOUR + timedelta(minutes=30), transaction_state=state)
    first, last = case.at
    for number in range(batches - 1):
        history.answers.append(_answers(case, first + timedelta(milliseconds=number), 0))
    history.answers.append(_answers(case, last, 1))
    history.answers.append(_answers(case, WATERMARK - timedelta(minutes=4), 0))
    return history


def _end(number: int, msg_id: str, at: datetime) -> dict[str, Any]:
    sent = {"msg_id": msg_id, "topic": "orders", "group_name": "shop", "from_transaction_check": False}
    return record(number, "EndTransaction", at, 1, layout="end_transaction_13", **sent)


def _answers(case: CoverageCase, at: datetime, index: int) -> Answers:
    ends = {topic: both[index] for topic, both in case.ends.items()}
    committed = {(topic, "stock"): both[index] for topic, both in case.offsets.items()}
    offsets = {key: offset for key, offset in committed.items() if offset is not None}
    connected = frozenset({("producer", "never-traced"), ("producer", "idle"), ("consumer", "stock")})
    collection = Collection(
        *(at, frozenset({"stock"}), ends, offsets),
        connected=connected | {("consumer", "silent")} if index else connected,
        tracing=frozenset({("producer", "idle")}),
        broadcasting=frozenset({"stock"} if case.broadcasting else ()),
    )
    topics = {topic for topic in case.ends if case.subscribed}
    return Answers(collection, {(topic, "stock"): case.subscribed for topic in topics})
