"""Histories of a group that subscribes long before its first traced attempt, which is in the last batch, or that traces none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from tests.incremental.cluster import Check
from tests.incremental.histories import WATERMARK, Answers, History
from tests.incremental.offset_histories import ASKED, ASKED_AGAIN, LATE, answers, begin, pub

LONG_AGO = WATERMARK - timedelta(days=9)
# Before messages that the first run has judged.
ASKED_EARLY = WATERMARK - timedelta(hours=30)
LOOKBACK = timedelta(days=7)
PUBLISHED = {
    "long_ago": LATE - LOOKBACK - timedelta(milliseconds=1),
    "in_the_look_back": LATE - LOOKBACK,
    "before_the_subscription": ASKED - timedelta(milliseconds=1),
    "at_the_subscription": ASKED,
    "for_20_hours": WATERMARK - timedelta(hours=20),
    "of_another_tag": WATERMARK - timedelta(hours=20),
    "when_it_unsubscribed": ASKED_AGAIN,
    "before_the_attempt": LATE - timedelta(milliseconds=1),
}
Verdict = tuple[str | None, str]
NOBODY, READ_UNTRACED = (None, "no_traced_group"), (None, "untraced_consumer")
OVERDUE, BACKLOG = ("stock", "backlog_overdue"), ("stock", "in_backlog")
UNTRACED, UNKNOWN = ("stock", "untraced_consumer"), ("stock", "filtered_or_lost")


@dataclass(frozen=True)
class Subscribed:
    """The expected group and the cause of messages at the last watermark.

    Attributes:
        causes: by message; the others are not compared.
        before: at the first watermark, where it is not what a subscription to all messages makes of it.
        offsets: of the group at both collections.
        asked: times of the collections.
        subscribed: the expression at both collections; None without a subscription.
        checks: a look-up at both collections.
        broadcasting: whether the group is in broadcast mode at the second collection.
        traced: whether the group traces an attempt.
        attempted_at: when.
    """

    causes: dict[str, Verdict]
    before: dict[str, Verdict] = field(default_factory=dict)
    offsets: tuple[int | None, int | None] = (10, 10)
    asked: tuple[datetime, datetime] = (ASKED, ASKED_AGAIN)
    subscribed: tuple[str | None, str | None] = ("*", "*")
    checks: tuple[Check | None, Check | None] = (None, None)
    broadcasting: bool = False
    traced: bool = True
    attempted_at: datetime = LATE

    @property
    def causes_before(self) -> dict[str, Verdict]:
        """At the first watermark: nothing of the group is traced then."""
        if self.subscribed[0] != "*" or self.attempted_at != LATE:
            return self.before
        first = {msg_id: at for msg_id, at in PUBLISHED.items() if at < ASKED_AGAIN}
        read = {msg_id: READ_UNTRACED if self.asked[0] <= at else NOBODY for msg_id, at in first.items()}
        return read | self.before


def _looked_up(
    states: tuple[str | None, str | None],
    before: Verdict,
    after: Verdict,
    msg_id: str = "before_the_subscription",
    **case: Any,
) -> Subscribed:
    """A message of a group that traces no attempt, with what the look-ups say at both collections."""
    first, second = (state and Check("orders", msg_id, "stock", state, queue_offset=7) for state in states)
    return Subscribed({msg_id: after}, {msg_id: before}, checks=(first, second), traced=False, **case)


_EARLY = {"asked": (ASKED, ASKED_EARLY), "traced": False}
_OF_TAG = {"subscribed": ("a", "a")}
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
    "long_ago": Subscribed(
        {"long_ago": READ_UNTRACED, "in_the_look_back": OVERDUE}, asked=(LONG_AGO, ASKED_AGAIN)
    ),
    "unsubscribed": Subscribed(
        {"for_20_hours": BACKLOG, "when_it_unsubscribed": NOBODY, "before_the_attempt": NOBODY},
        subscribed=("*", None),
    ),
    "dropped_the_topic": Subscribed(
        {"for_20_hours": NOBODY, "before_the_attempt": NOBODY},
        {"for_20_hours": BACKLOG},
        asked=(ASKED_EARLY - timedelta(hours=2), ASKED_EARLY),
        subscribed=("*", None),
        attempted_at=ASKED_EARLY - timedelta(hours=1),
    ),
    "broadcasting": Subscribed({"for_20_hours": READ_UNTRACED}, broadcasting=True),
    "never_traced": Subscribed(
        {"before_the_subscription": NOBODY, "for_20_hours": READ_UNTRACED}, traced=False
    ),
    "untraced_comes": Subscribed(
        *({"for_20_hours": READ_UNTRACED}, {"for_20_hours": NOBODY}), subscribed=(None, "*"), **_EARLY
    ),
    "untraced_goes": Subscribed(
        *({"for_20_hours": NOBODY}, {"for_20_hours": READ_UNTRACED}), subscribed=("*", None), **_EARLY
    ),
    "untraced_comes_for_a_tag": Subscribed(
        {"for_20_hours": READ_UNTRACED, "of_another_tag": NOBODY},
        {"for_20_hours": NOBODY, "of_another_tag": NOBODY},
        subscribed=(None, "a"),
        **_EARLY,
    ),
    "untraced_comes_by_sql": Subscribed(
        *({"for_20_hours": READ_UNTRACED}, {"for_20_hours": NOBODY}),
        subscribed=(None, "weight > 3"),
        **_EARLY,
    ),
    "look_up_consumed": _looked_up((None, "consumed"), NOBODY, READ_UNTRACED),
    "look_up_or_filtered": _looked_up((None, "consumed_or_filtered"), NOBODY, READ_UNTRACED),
    "look_up_retrying": _looked_up((None, "retrying"), NOBODY, READ_UNTRACED),
    "look_up_passed_since": _looked_up(("offline", None), NOBODY, READ_UNTRACED, offsets=(5, 9)),
    "look_up_set_back": _looked_up(("not_consumed", None), READ_UNTRACED, NOBODY, offsets=(9, 5)),
    "look_up_not_consumed": _looked_up((None, "not_consumed"), NOBODY, NOBODY, offsets=(5, 6)),
    "look_up_filtered": _looked_up(*((None, "filtered"), READ_UNTRACED, NOBODY, "for_20_hours"), **_OF_TAG),
    "look_up_filtered_since_it_changed": Subscribed(
        {"for_20_hours": ("stock", "filter_unknown")},
        subscribed=("*", "a"),
        offsets=(10, 20),
        checks=(None, Check("orders", "for_20_hours", "stock", "filtered", queue_offset=7)),
    ),
    "look_up_consumed_after_it_changed": Subscribed(
        {"for_20_hours": ("stock", "filter_unknown")},
        subscribed=("*", "a"),
        offsets=(10, 20),
        checks=(None, Check("orders", "for_20_hours", "stock", "consumed", queue_offset=7)),
    ),
    "look_up_filtered_before": _looked_up((None, "filtered"), NOBODY, NOBODY),
    "look_up_broadcasting": _looked_up((None, "broadcasting"), NOBODY, NOBODY),
    "look_up_consumed_of_another_tag": _looked_up(
        *((None, "consumed"), NOBODY, NOBODY, "of_another_tag"), **_OF_TAG
    ),
    "look_up_dead_letter_of_another_tag": _looked_up(
        *((None, "dead_letter"), NOBODY, READ_UNTRACED, "of_another_tag"), **_OF_TAG
    ),
}


def subscription_histories(batches: int) -> dict[str, History]:
    """By name."""
    return {f"subscribed_{name}": _history(case, batches) for name, case in SUBSCRIBED.items()}


def _history(case: Subscribed, batches: int) -> History:
    history = History()
    for msg_id, at in PUBLISHED.items():
        more = {"change_seq": batches if at >= ASKED_AGAIN else 1}
        more |= {"tags": "b"} if msg_id == "of_another_tag" else {}
        history.records.append(pub(len(history.records), msg_id, at) | more)
    at = case.attempted_at
    batch = batches if at >= ASKED_AGAIN else 1
    history.records.append(pub(len(history.records), "attempted", at) | {"change_seq": batch})
    if case.traced:
        history.records.append(begin(len(history.records), "attempted", at, batch))
    first, second = case.asked
    for number in range(batches - 1):
        history.answers.append(_answers(case, first + timedelta(minutes=number), 0))
    history.answers.append(_answers(case, second, 1))
    history.answers.append(_answers(case, WATERMARK - timedelta(minutes=4), 0))
    return history


def _answers(case: Subscribed, at: datetime, number: int) -> Answers:
    found = answers(
        *(at, frozenset({"stock"}), (10, 20)[number], case.offsets[number], True, case.checks[number])
    )
    expression = case.subscribed[number]
    found = replace(found, subscribed={("orders", "stock"): expression} if expression else {})
    if number and case.broadcasting:
        found = replace(found, collection=replace(found.collection, broadcasting=frozenset({"stock"})))
    return found
