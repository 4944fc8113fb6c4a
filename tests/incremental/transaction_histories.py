"""A transaction of before the time from which retention keeps records: those that are drawn may have none."""

from __future__ import annotations

from tests.incremental.histories import History
from tests.incremental.offset_histories import PUBLISHED, pub, record


def transaction_histories() -> dict[str, History]:
    """By name."""
    history, at = History(), PUBLISHED["before_both"]
    ended = {"msg_id": "half", "topic": "orders", "group_name": "shop", "layout": "end_transaction_13"}
    ended |= {"transaction_state": "COMMIT_MESSAGE", "from_transaction_check": False}
    history.records.append(pub(0, "half", at) | {"msg_type": "half"})
    history.records.append(record(1, "EndTransaction", at, 1, **ended))
    return {"committed_long_ago": history}
