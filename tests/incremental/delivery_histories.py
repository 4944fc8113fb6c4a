"""Histories of failed deliveries, whose outcome changes when the brokers are asked again or a later attempt is read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.incremental.cluster import Check
from tests.incremental.histories import WATERMARK, History
from tests.incremental.offset_histories import answers, begin, pub, record

PUBLISHED = WATERMARK - timedelta(days=4)
ASKED, ASKED_AGAIN = WATERMARK - timedelta(hours=13), WATERMARK - timedelta(hours=2)
SOON, LATE = WATERMARK - timedelta(hours=3), WATERMARK - timedelta(hours=1)
EXHAUSTED, PROVEN = ("exhausted", "inferred"), ("exhausted", "proven")
RETRYING, SUCCEEDED = ("retrying", None), ("succeeded", None)


@dataclass(frozen=True)
class DeliveryCase:
    """Outcome and evidence of a delivery at the first watermark, 12 hours before the last, and at the last.

    Attributes:
        checks: the state that the broker says at both collections; None: it is not looked up.
        before: at the first watermark; None: there is no delivery yet.
        after: at the last; None: there is none.
        attempts: (time, retry_times, whether it succeeded) of the first batch.
        late: those of the last.
    """

    checks: tuple[str | None, str | None]
    before: tuple[str, str | None] | None
    after: tuple[str, str | None] | None
    attempts: tuple[tuple[datetime, int, bool], ...] = ((PUBLISHED, 0, False),)
    late: tuple[tuple[datetime, int, bool], ...] = ()


OUTCOMES_BY_LOOK_UP = {
    "dead_letter": DeliveryCase((None, "dead_letter"), EXHAUSTED, PROVEN),
    "dead_before_it_is_given_up": DeliveryCase(
        (None, "dead_letter"), None, PROVEN, attempts=(), late=((SOON, 0, False),)
    ),
    "not_looked_up": DeliveryCase((None, None), EXHAUSTED, EXHAUSTED),
    "without_a_dead_letter": DeliveryCase((None, "consumed"), EXHAUSTED, EXHAUSTED),
    "waits_for_its_retry": DeliveryCase((None, "retrying"), EXHAUSTED, RETRYING),
    "waits_after_the_last_retry": DeliveryCase(
        (None, "retrying"), EXHAUSTED, RETRYING, attempts=((PUBLISHED, 16, False),)
    ),
    "waits_no_longer": DeliveryCase(("retrying", None), RETRYING, EXHAUSTED),
    "tried_since": DeliveryCase(("retrying", None), RETRYING, EXHAUSTED, late=((LATE, 16, False),)),
    "sent_again": DeliveryCase(("dead_letter", None), PROVEN, RETRYING, late=((LATE, 1, False),)),
    "sent_again_well": DeliveryCase(("dead_letter", None), PROVEN, SUCCEEDED, late=((LATE, 1, True),)),
    "untraced": DeliveryCase((None, "dead_letter"), None, None, attempts=()),
    "untraced_and_sent_again": DeliveryCase(
        ("dead_letter", None), None, SUCCEEDED, attempts=(), late=((LATE, 0, True),)
    ),
}

# By history the evidence of the dead letter at both watermarks; None: it is none.
DEAD_LETTERS = {
    "dead_letter": ("inferred", "proven"),
    "dead_before_it_is_given_up": (None, "proven"),
    "not_looked_up": ("inferred", "inferred"),
    "waits_for_its_retry": ("inferred", None),
    "waits_no_longer": (None, "inferred"),
    "sent_again": ("proven", None),
    "sent_again_well": ("proven", None),
    "untraced": (None, "proven"),
    "untraced_and_sent_again": ("proven", None),
}


def delivery_histories(batches: int) -> dict[str, History]:
    """By name."""
    return {f"delivery_{name}": _history(case, batches) for name, case in OUTCOMES_BY_LOOK_UP.items()}


def _history(case: DeliveryCase, batches: int) -> History:
    history = History()
    history.records.append(pub(0, "failed", PUBLISHED))
    for batch, attempts in ((1, case.attempts), (batches, case.late)):
        for at, retry_times, is_success in attempts:
            number = len(history.records)
            history.records.append(begin(number, "failed", at, batch) | {"retry_times": retry_times})
            end = {
                "msg_id": "failed",
                "request_id": f"q{number}",
                "group_name": "stock",
                "layout": "sub_after_9",
            }
            end |= {"success": is_success, "context_code": "success" if is_success else "failed"}
            history.records.append(record(number + 1, "SubAfter", at + timedelta(seconds=1), batch, **end))
    first, second = (
        state and Check("orders", "failed", "stock", state, queue_offset=7) for state in case.checks
    )
    stock = frozenset({"stock"})
    for number in range(batches - 1):
        history.answers.append(answers(ASKED + timedelta(minutes=number), stock, 10, 10, True, first or None))
    history.answers.append(answers(ASKED_AGAIN, stock, 10, 10, True, second or None))
    history.answers.append(answers(WATERMARK - timedelta(minutes=4), stock, 11, 10, True, first or None))
    return history
