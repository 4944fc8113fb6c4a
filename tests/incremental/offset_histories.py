"""Histories of which each message changes its cause when the brokers are asked again, without a new record of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from spark_jobs.lake import tables
from tests.incremental.cluster import Check, Collection
from tests.incremental.histories import WATERMARK, Answers, History

FIRST_ATTEMPT = WATERMARK - timedelta(days=6)
ASKED, ASKED_AGAIN = WATERMARK - timedelta(days=3), WATERMARK - timedelta(hours=2)
LATE = WATERMARK - timedelta(hours=1)
ENDS = (10, 20)
PUBLISHED = {
    "before_both": WATERMARK - timedelta(days=4),
    "between": WATERMARK - timedelta(hours=60),
    "for_30_hours": WATERMARK - timedelta(hours=30),
    "for_20_hours": WATERMARK - timedelta(hours=20),
}
UNKNOWN = ("filtered_or_lost", "unknown")
OVERDUE, NEVER_REACHED = ("backlog_overdue", "inferred"), ("backlog_overdue", "proven")
UNTRACED, PASSED = ("untraced_consumer", "inferred"), ("passed_untraced", "inferred")
IN_BACKLOG = ("in_backlog", "inferred")
DELETED = ("group_deleted", "proven")
PASSED_PROVEN, SKIPPED = ("passed_untraced", "proven"), ("skipped", "proven")

# By history the offset of the group at both collections (the topic ended at 10, then at 20), and the cause and evidence of
# messages before and after the second.
CAUSES_BY_OFFSETS: dict[
    str, tuple[int | None, int | None, dict[str, tuple[tuple[str, str], tuple[str, str]]]]
] = {
    "caught_up": (
        *(5, 20),
        {
            "before_both": (OVERDUE, UNTRACED),
            "between": (OVERDUE, UNTRACED),
            "for_20_hours": (IN_BACKLOG, UNTRACED),
        },
    ),
    "traced_again": (*(10, 20), {"before_both": (UNTRACED, PASSED), "for_20_hours": (IN_BACKLOG, PASSED)}),
    "stopped": (
        *(10, 10),
        {
            "before_both": (UNTRACED, UNTRACED),
            "between": (OVERDUE, NEVER_REACHED),
            "for_30_hours": (IN_BACKLOG, NEVER_REACHED),
            "for_20_hours": (IN_BACKLOG, ("in_backlog", "proven")),
        },
    ),
    "set_back": (*(10, 0), {"before_both": (UNTRACED, OVERDUE), "for_20_hours": (IN_BACKLOG, IN_BACKLOG)}),
    "deleted": (*(10, 10), {"before_both": (UNTRACED, UNKNOWN), "for_20_hours": (IN_BACKLOG, DELETED)}),
    "deleted_in_motion": (
        *(5, 10),
        {"before_both": (OVERDUE, UNKNOWN), "for_20_hours": (IN_BACKLOG, UNKNOWN)},
    ),
    "offsets_deleted": (*(10, None), {"before_both": (UNTRACED, UNKNOWN), "between": (OVERDUE, UNKNOWN)}),
    "committed_late": (
        *(None, 20),
        {"before_both": (UNKNOWN, UNTRACED), "for_20_hours": (UNKNOWN, UNTRACED)},
    ),
    "never_committed": (*(None, None), {"before_both": (UNKNOWN, UNKNOWN)}),
}


# By history and message how many messages the group is behind, at both watermarks; None: the message is in no backlog.
BEHIND = {
    ("caught_up", "between"): (5, None),
    ("stopped", "between"): (0, 10),
    ("stopped", "for_20_hours"): (0, 10),
    ("set_back", "before_both"): (None, 20),
    ("set_back", "for_20_hours"): (0, 20),
    ("look_up_not_consumed", "between"): (5, 10),  # 14 behind at the second
    ("look_up_not_consumed", "for_20_hours"): (5, 10),
    ("committed_late", "for_20_hours"): (None, None),
}


@dataclass(frozen=True)
class LookedUp:
    """What is said of the message `before_both` at both collections, and its cause and evidence before and after the second.

    Attributes:
        first: at the first collection.
        second: at the second.
        before: cause and evidence.
        after: cause and evidence.
        offsets: of the group at both.
        online: whether a consumer was connected at both.
        pulled: the pull offset of the group at both; None: unknown.
        clients: how many consumers there were where one was connected.
        tracing: whether one of them wrote a trace, at both.
        traced: attempts of the group in the first batch.
        traced_late: attempts that are in the last batch.
        others: what is said of the message `first` at both collections.
        is_deleted: whether the second collection knows no group.
    """

    first: Check | None
    second: Check | None
    before: tuple[str, str]
    after: tuple[str, str]
    offsets: tuple[int | None, int | None] = (10, 10)
    online: tuple[bool, bool] = (True, True)
    pulled: tuple[int | None, int | None] = (None, None)
    clients: tuple[int, int] = (1, 1)
    tracing: tuple[bool, bool] = (False, False)
    traced: tuple[datetime, ...] = ()
    traced_late: tuple[datetime, ...] = ()
    others: tuple[Check | None, Check | None] = (None, None)
    is_deleted: bool = False


def _check(state: str, msg_id: str = "before_both", **more: Any) -> Check:
    return Check("orders", msg_id, "stock", state, **({"queue_offset": 7} | more))


_JUMPED: dict[str, Any] = {"offsets": (5, 20), "online": (False, False)}
_DROPPED: dict[str, Any] = {"offsets": (5, 9), "traced_late": (LATE,)}
_FIRST_DROPPED = _check("consumed", "first", queue_offset=6)
_HELD, _GONE = {"queue_offset": None, "held_as": "timer"}, {"queue_offset": None, "is_stored": False}
CAUSES_BY_LOOK_UP = {
    "filtered": LookedUp(None, _check("filtered"), UNTRACED, ("filtered", "proven")),
    "not_consumed": LookedUp(None, _check("not_consumed"), OVERDUE, NEVER_REACHED, offsets=(5, 6)),
    "offline": LookedUp(_check("offline"), None, NEVER_REACHED, NEVER_REACHED, offsets=(5, 6)),
    "passed_since": LookedUp(_check("not_consumed"), None, NEVER_REACHED, UNTRACED, offsets=(5, 9)),
    "jumped_online": LookedUp(
        _check("offline"), None, NEVER_REACHED, UNTRACED, offsets=(5, 20), online=(False, True)
    ),
    "jumped_after_online": LookedUp(
        _check("offline"), None, NEVER_REACHED, UNTRACED, offsets=(5, 20), online=(True, False)
    ),
    "skipped": LookedUp(*(_check("offline"), None, NEVER_REACHED, SKIPPED), **_JUMPED, pulled=(5, 7)),
    "jumped_and_was_pulled": LookedUp(
        *(_check("offline"), None, NEVER_REACHED, UNTRACED), **_JUMPED, pulled=(5, 8)
    ),
    "jumped": LookedUp(*(_check("offline"), None, NEVER_REACHED, UNTRACED), **_JUMPED),
    "jumped_and_came_back": LookedUp(
        *(_check("offline"), None, NEVER_REACHED, SKIPPED), **_JUMPED, traced_late=(LATE,)
    ),
    "pulled_and_came_back": LookedUp(
        *(_check("offline"), None, NEVER_REACHED, PASSED), **_JUMPED, pulled=(5, 8), traced_late=(LATE,)
    ),
    "batch_of_one_skipped": LookedUp(
        *(_check("offline", is_of_batch=True), None, NEVER_REACHED, SKIPPED), **_JUMPED, pulled=(5, 7)
    ),
    "batch_of_one_jumped": LookedUp(
        *(_check("offline", is_of_batch=True), None, NEVER_REACHED, ("untraced_batch", "inferred")),
        **_JUMPED,
        traced_late=(LATE,),
    ),
    "dead_letter": LookedUp(_check("retrying"), _check("dead_letter"), UNTRACED, ("dead_letter", "proven")),
    "retrying": LookedUp(None, _check("retrying"), UNTRACED, ("retrying", "proven")),
    "consumed": LookedUp(*(None, _check("consumed"), OVERDUE, PASSED), **_DROPPED, tracing=(True, True)),
    "dropped_in_two_intervals": LookedUp(
        *(None, _check("consumed"), OVERDUE, PASSED_PROVEN),
        **_DROPPED,
        tracing=(True, True),
        others=(_FIRST_DROPPED, None),
    ),
    "dropped_again": LookedUp(
        *(_check("consumed"), None, PASSED, PASSED_PROVEN),
        tracing=(True, True),
        traced=(WATERMARK - timedelta(days=2),),
        others=(None, _FIRST_DROPPED),
    ),
    "dropped_in_one_interval": LookedUp(
        *(None, _check("consumed", stored_at=PUBLISHED["before_both"]), OVERDUE, PASSED),
        **_DROPPED,
        tracing=(True, True),
        others=(None, _FIRST_DROPPED),
    ),
    "dropped_twice_by_some_clients": LookedUp(
        *(None, _check("consumed", stored_at=ASKED_AGAIN), OVERDUE, PASSED),
        **_DROPPED,
        clients=(2, 1),
        tracing=(True, True),
        others=(_FIRST_DROPPED, None),
    ),
    "consumed_clients_unknown": LookedUp(*(None, _check("consumed"), OVERDUE, PASSED), **_DROPPED),
    "consumed_some_clients_trace": LookedUp(
        *(None, _check("consumed"), OVERDUE, UNTRACED), **_DROPPED, clients=(1, 2), tracing=(True, True)
    ),
    "consumed_some_clients_traced": LookedUp(
        *(None, _check("consumed", stored_at=PUBLISHED["before_both"]), OVERDUE, UNTRACED),
        **_DROPPED,
        clients=(2, 1),
        tracing=(True, True),
    ),
    "consumed_the_client_traces_now": LookedUp(
        *(None, _check("consumed", stored_at=ASKED_AGAIN), OVERDUE, PASSED),
        **_DROPPED,
        clients=(2, 1),
        tracing=(True, True),
    ),
    "consumed_trace_on_later": LookedUp(
        *(None, _check("consumed", stored_at=PUBLISHED["before_both"]), OVERDUE, PASSED),
        **_DROPPED,
        tracing=(False, True),
    ),
    "consumed_the_client_came_back": LookedUp(
        *(None, _check("consumed", stored_at=PUBLISHED["before_both"]), OVERDUE, PASSED),
        **_DROPPED,
        online=(False, True),
        tracing=(False, True),
    ),
    "lost_trace": LookedUp(
        *(_check("consumed"), None, PASSED, ("lost_trace", "inferred")),
        tracing=(True, True),
        traced=(WATERMARK - timedelta(days=2),),
        traced_late=(PUBLISHED["before_both"] + timedelta(minutes=59),),
    ),
    "lost_trace_of_another_hour": LookedUp(
        *(_check("consumed"), None, PASSED, PASSED),
        tracing=(True, True),
        traced=(WATERMARK - timedelta(days=2),),
        traced_late=(PUBLISHED["before_both"] + timedelta(minutes=60),),
    ),
    "consumed_untraced": LookedUp(None, _check("consumed"), UNTRACED, UNTRACED),
    "consumed_or_filtered": LookedUp(
        None, _check("consumed_or_filtered"), UNTRACED, ("filter_unknown", "unknown")
    ),
    "timer": LookedUp(
        _check("not_delivered", due_at=WATERMARK - timedelta(hours=5), **_HELD),
        _check("not_delivered", due_at=WATERMARK + timedelta(hours=1), **_HELD),
        *(("delayed_not_due", "proven"), ("delayed_not_due", "proven")),
    ),
    "timer_that_came": LookedUp(
        _check("not_delivered", due_at=WATERMARK - timedelta(hours=11), **_HELD),
        *(None, ("delayed_not_due", "proven"), IN_BACKLOG),
    ),
    "recalled": LookedUp(None, _check("recalled", **_HELD), UNTRACED, ("recalled", "proven")),
    "consumed_in_a_batch_of_one": LookedUp(
        None, _check("consumed", is_of_batch=True), UNTRACED, ("untraced_batch", "inferred")
    ),
    "half": LookedUp(
        None,
        _check("not_delivered", **_HELD | {"held_as": "transaction"}),
        UNTRACED,
        ("half_uncommitted", "proven"),
    ),
    "gone": LookedUp(*(None, _check("unknown", **_GONE), UNKNOWN, ("gone", "unknown")), offsets=(None, None)),
    "gone_from_the_backlog": LookedUp(
        *(_check("not_consumed"), _check("unknown", **_GONE), NEVER_REACHED, ("gone", "unknown")),
        offsets=(5, 6),
    ),
    "unanswered": LookedUp(
        *(_check("offline"), _check("unknown", **_GONE | {"is_stored": None}), NEVER_REACHED, NEVER_REACHED),
        offsets=(5, 6),
    ),
    "broadcasting": LookedUp(
        *(None, _check("broadcasting"), UNKNOWN, ("broadcasting", "unknown")), offsets=(None, None)
    ),
    "deleted_with_a_backlog": LookedUp(
        _check("offline"), None, NEVER_REACHED, DELETED, offsets=(5, 5), is_deleted=True
    ),
}


_NOT_LOOKED_UP = LookedUp(None, None, UNKNOWN, UNKNOWN, online=(False, False))


def offset_histories(batches: int) -> dict[str, History]:
    """By name; all records are in the first batch, but a late attempt is in the last."""
    of_offsets = {
        name: _history(
            *((before, after), batches),
            is_deleted=name.startswith("deleted"),
            traced_late=(LATE,) if name == "traced_again" else (),
        )
        for name, (before, after, _) in CAUSES_BY_OFFSETS.items()
    }
    of_look_ups = {
        f"look_up_{name}": _history(
            *(each.offsets, batches),
            is_deleted=each.is_deleted,
            traced=each.traced,
            traced_late=each.traced_late,
            asked=each,
        )
        for name, each in CAUSES_BY_LOOK_UP.items()
    }
    return of_offsets | of_look_ups


def _history(
    offsets: tuple[int | None, int | None],
    batches: int,
    is_deleted: bool,
    traced: tuple[datetime, ...] = (),
    traced_late: tuple[datetime, ...] = (),
    asked: LookedUp = _NOT_LOOKED_UP,
) -> History:
    history = History()
    messages = {"first": FIRST_ATTEMPT} | {each: PUBLISHED[each] for each in PUBLISHED}
    for msg_id, at in messages.items():
        history.records.append(pub(len(history.records), msg_id, at))
    history.records.append(begin(len(history.records), "first", FIRST_ATTEMPT, 1))
    for batch, attempts in ((1, traced), (batches, traced_late)):
        for at in attempts:
            history.records.append(begin(len(history.records), "first", at, batch))
    before, after = offsets
    stock, nobody = frozenset({"stock"}), frozenset[str]()
    for number in range(batches - 1):
        at = ASKED + timedelta(minutes=number)
        history.answers.append(
            _of_clients(asked, 0, answers(at, stock, ENDS[0], before, asked.online[0], asked.first))
        )
    known = nobody if is_deleted else stock
    again = answers(ASKED_AGAIN, known, ENDS[1], after, asked.online[1], asked.second)
    history.answers.append(_of_clients(asked, 1, again))
    later = WATERMARK - timedelta(minutes=4)
    history.answers.append(answers(later, stock, ENDS[1] + 1, ENDS[1], True, asked.first))
    return history


def _of_clients(asked: LookedUp, number: int, found: Answers) -> Answers:
    """The answers with what they say of the group's clients, of what they pulled, and of the message `first`."""
    pulled, stock, other = asked.pulled[number], frozenset({"stock"}), asked.others[number]
    more = replace(
        found.collection,
        tracing=found.collection.connected if asked.tracing[number] else frozenset(),
        two_clients=stock if asked.clients[number] == 2 else frozenset(),
        pull_offsets={} if pulled is None else {("orders", "stock"): pulled},
        checks=(*found.collection.checks, *([other] if other else [])),
    )
    return replace(found, collection=more)


def answers(
    at: datetime, groups: frozenset[str], end: int, offset: int | None, is_online: bool, check: Check | None
) -> Answers:
    offsets = {} if offset is None else {("orders", "stock"): offset}
    connected = frozenset({("consumer", "stock")} if is_online else ())
    checks = (check,) if check else ()
    collection = Collection(at, groups, {"orders": end}, offsets, connected=connected, checks=checks)
    return Answers(collection, {("orders", "stock"): "*"})


def record(number: int, record_type: str, at: datetime, batch: int, **columns: Any) -> dict[str, Any]:
    return (
        dict.fromkeys(tables.EVENTS.column_names)
        | {
            **{"trace_topic": "RMQ_SYS_TRACE_TOPIC", "broker": "broker-a", "queue_id": 0, "epoch": 0},
            **{"queue_offset": number, "record_index": 0, "store_time": at + timedelta(seconds=1)},
            **{"born_host": "10.0.0.1:1", "record_type": record_type, "event_time": at},
            **{"event_time_suspect": False, "decoder_version": "test", "change_seq": batch},
        }
        | columns
    )


def pub(number: int, msg_id: str, at: datetime) -> dict[str, Any]:
    sent = {"msg_id": msg_id, "offset_msg_id": f"o-{msg_id}", "topic": "orders", "group_name": "shop"}
    sent |= {"msg_type": "normal", "layout": "pub_14", "keys": "", "success": True, "cost_ms": 3.0}
    return record(number, "Pub", at, 1, **sent)


def begin(number: int, msg_id: str, at: datetime, batch: int) -> dict[str, Any]:
    call = {"msg_id": msg_id, "request_id": f"q{number}", "group_name": "stock", "retry_times": 0}
    return record(number, "SubBefore", at, batch, layout="sub_before_8", keys="dKey", **call)
