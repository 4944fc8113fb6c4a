"""Histories of a group that subscribes long before its first traced attempt, which is in the last batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tests.incremental.histories import WATERMARK, Answers, History
from tests.incremental.offset_histories import ASKED, ASKED_AGAIN, LATE, answers, begin, pub

LONG_AGO = WATERMARK - timedelta(days=9)
LOOKBACK = timedelta(days=7)
PUBLISHED = {
    "long_ago": LATE - LOOKBACK - timedelta(milliseconds=1),
    "in_the_look_back": LATE - LOOKBACK,
    "before_the_subscription": ASKED - timedelta(milliseconds=1),
    "at_the_subscription": ASKED,
    "for_20_hours": WATERMARK - timedelta(hours=20),
    "when_it_unsubscribed": ASKED_AGAIN,
    "before_the_attempt": LATE - timedelta(milliseconds=1),
}
NOBODY = (None, "no_traced_group")
OVERDUE, BACKLOG = ("stock", "backlog_overdue"), ("stock", "in_backlog")
UNTRACED, UNKNOWN = ("stock", "untraced_consumer"), ("stock", "filtered_or_lost")


@dataclass(frozen=True)
class Subscribed:
    """The expected group and the cause of messages at the last watermark.

    Attributes:
        causes: by message; the others are not compared.
        offsets: of the group at both collections.
        asked: time of the first collection.
        unsubscribes: whether the second collection sees no subscription.
        broadcasting: whether the group is in broadcast mode at the second collection.
        traced: whether the group traces an attempt.
    """

    causes: dict[str, tuple[str | None, str]]
    offsets: tuple[int | None, int | None] = (10, 10)
    asked: datetime = ASKED
    unsubscribes: bool = False
    broadcasting: bool = False
    traced: bool = True


SUBSCRIBED = {
    "stopped": Subscribed(
        {
            "before_the_subscription": NOBODY,
            "at_the_subscription": OVERDUE,
            "for_20_hours": BACKLOG,
            "before_the_attempt": BACKLOG,
        }
    ),
    "consumed_without_trace": Subscribed(
        {"before_the_subscription": NOBODY, "at_the_subscription": UNTRACED, "for_20_hours": UNTRACED},
        offsets=(10, 20),
    ),
    "without_offsets": Subscribed({"for_20_hours": UNKNOWN}, offsets=(None, None)),
    "long_ago": Subscribed({"long_ago": NOBODY, "in_the_look_back": OVERDUE}, asked=LONG_AGO),
    "unsubscribed": Subscribed(
        {"for_20_hours": BACKLOG, "when_it_unsubscribed": NOBODY, "before_the_attempt": NOBODY},
        unsubscribes=True,
    ),
    "broadcasting": Subscribed({"for_20_hours": NOBODY}, broadcasting=True),
    "never_traced": Subscribed({"for_20_hours": NOBODY}, traced=False),
}


def subscription_histories(batches: int) -> dict[str, History]:
    """By name."""
    return {f"subscribed_{name}": _history(case, batches) for name, case in SUBSCRIBED.items()}


def _history(case: Subscribed, batches: int) -> History:
    history = History()
    for msg_id, at in PUBLISHED.items():
        batch = batches if at >= ASKED_AGAIN else 1
        history.records.append(pub(len(history.records), msg_id, at) | {"change_seq": batch})
    history.records.append(pub(len(history.records), "attempted", LATE) | {"change_seq": batches})
    if case.traced:
        history.records.append(begin(len(history.records), "attempted", LATE, batches))
    for number in range(batches - 1):
        history.answers.append(_answers(case, case.asked + timedelta(minutes=number), 0))
    history.answers.append(_answers(case, ASKED_AGAIN, 1))
    history.answers.append(_answers(case, WATERMARK - timedelta(minutes=4), 0))
    return history


def _answers(case: Subscribed, at: datetime, number: int) -> Answers:
    found = answers(at, frozenset({"stock"}), (10, 20)[number], case.offsets[number], True, None)
    if number and case.unsubscribes:
        found = replace(found, subscribed={})
    if number and case.broadcasting:
        found = replace(found, collection=replace(found.collection, broadcasting=frozenset({"stock"})))
    return found
