"""Histories of a small cluster, drawn by Hypothesis: records that come twice, late, out of order, or not at all.

Few ids and names, so that they meet; ages that lie on both sides of each limit before the watermark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from spark_jobs.lake import tables
from spark_jobs.settings import Limits
from tests.incremental.cluster import Check, Collection

WATERMARK = datetime(2026, 11, 21, 12)
_LIMITS = Limits()
_GRACE, _TIMEOUT, _DELAY = (
    timedelta(seconds=s)
    for s in (_LIMITS.grace_seconds, _LIMITS.consume_timeout_seconds, _LIMITS.max_delay_seconds)
)
_LOOKBACK = timedelta(days=_LIMITS.expected_group_lookback_days)
_HORIZON = timedelta(seconds=_LIMITS.retry_horizon_seconds)
# Before the watermark; each limit on the millisecond, and what lies between them.
AGES = [
    *(timedelta(0), _GRACE, _GRACE + _TIMEOUT, _DELAY, _DELAY + _GRACE, _HORIZON + _DELAY),
    *(timedelta(minutes=5), timedelta(hours=1), timedelta(hours=4), timedelta(hours=20), timedelta(days=3)),
    *(_LOOKBACK, _LOOKBACK + timedelta(hours=1)),
]
NEAR = [timedelta(0), timedelta(milliseconds=1), timedelta(milliseconds=-1), timedelta(minutes=7)]
WAITS = [
    timedelta(0),
    timedelta(milliseconds=40),
    timedelta(seconds=3),
    timedelta(minutes=16),
    timedelta(hours=2),
]
SKEWS = [timedelta(0)] * 4 + [timedelta(seconds=3), timedelta(minutes=-20), timedelta(hours=2)]
# What becomes of a record on its way.
FATES = ["whole"] * 7 + ["lost", "twice", "late", "suspect", "untimed"]
GO_ID = "0A0000010929" + "00000000" + "6bba1c780001"
GROUPS = ("stock", "mail")
STATES = (
    *("dead_letter", "retrying", "filtered", "not_consumed", "offline", "consumed", "consumed_or_filtered"),
    *("not_delivered", "broadcasting", "recalled", "unknown"),
)
CODES = ["success"] * 4 + ["exception", "returned_null", "failed", "timeout"]


@dataclass
class Answers:
    """A collection, and by topic and group the expression of the subscription."""

    collection: Collection
    subscribed: dict[tuple[str, str], str]


@dataclass
class History:
    """Records of one cluster, each with the batch that it comes in, what was never read, and what was asked of the brokers.

    The last answers are too late for the run.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    gaps: list[tuple[datetime | None, datetime]] = field(default_factory=list)
    answers: list[Answers] = field(default_factory=list)


class _Teller:
    """Tells a history: every choice is Hypothesis'."""

    def __init__(self, draw: st.DrawFn, batches: int):
        self.draw, self.batches = draw, batches
        self.history = History()
        self.clients = {
            name: draw(st.sampled_from(SKEWS)) for name in ("10.0.0.1:1", "10.0.0.2:1", "10.0.0.2:7")
        }
        self.trace_messages = 0
        self.unconsumed: dict[str, datetime] = {}
        self.has_namespace = draw(st.booleans())

    def one_of(self, values: list[Any]) -> Any:
        return self.draw(st.sampled_from(values))

    def often(self) -> bool:
        return self.one_of([True] * 5 + [False])

    def client(self) -> str:
        return self.one_of(list(self.clients))

    def record(self, client: str, *records: tuple[str, datetime, dict[str, Any]]) -> None:
        """One trace message with these records, each of a type and time; what is lost of it, and when it is stored."""
        fate = self.one_of(FATES)
        if fate == "lost":
            return
        for _ in range(2 if fate == "twice" else 1):
            late = self.one_of(AGES) if fate == "late" else timedelta(0)
            batch = self.draw(st.integers(1, self.batches))
            self.trace_messages += 1
            for index, (record_type, time, columns) in enumerate(records):
                row: dict[str, Any] = dict.fromkeys(tables.EVENTS.column_names)
                row |= {
                    "trace_topic": "RMQ_SYS_TRACE_TOPIC",
                    "broker": "broker-a",
                    "queue_id": 0,
                    "epoch": 0,
                    "queue_offset": self.trace_messages,
                    "record_index": index,
                    "store_time": records[-1][1] + timedelta(seconds=1) + late,
                    "born_host": client,
                    "record_type": record_type,
                    "event_time": None if fate == "untimed" else time + self.clients[client],
                    "event_time_suspect": None if fate == "untimed" else fate == "suspect",
                    "decoder_version": "test",
                    "change_seq": batch,
                }
                self.history.records.append(row | columns)

    def message(self) -> None:
        """A send, what was decided of it, and what consumers did with it."""
        sent = WATERMARK - self.one_of(AGES) + self.one_of(NEAR)
        msg_type = self.one_of(["normal"] * 4 + ["delay", "half"])
        ids = [self.one_of([f"m{n}" for n in range(8)] + ["01" + "A" * 32, GO_ID, "o-1", "set,7"])]
        if msg_type == "normal" and not self.often():
            ids = [f"{ids[0]}", *(f"b{n}" for n in range(self.draw(st.integers(1, 2))))]
        topic = self.one_of(["orders", "orders", "ns%orders", "audit", "%RETRY%stock"])
        producer = self.client()
        # The Go client names no message of a batch, and consumers know it by the broker's id.
        is_named = ids[0] != "o-1"
        if self.often():
            pub = {
                "msg_id": ",".join(ids) if is_named else "",
                "topic": topic,
                "group_name": self.one_of(["shop", "null"]),
                "cost_ms": self.one_of([0.0, 3.0, 700.0, -2.0, 2.5, 9e6, 86_400_001.0, None]),
                "success": self.one_of([True, True, False, None]),
                "msg_type": msg_type,
                "tags": self.one_of(["a", "a", "b", "null"]) if len(ids) == 1 else None,
                "offset_msg_id": ",".join(
                    "o-" + each.replace(",", ".") if is_named else each for each in ids
                ),
                "layout": "pub_14",
                "keys": "",
            }
            self.record(producer, ("Pub", sent, pub))
        if msg_type == "half" or not self.often():
            for _ in range(self.draw(st.integers(0, 2))):
                self.decide(producer, ids[0], sent)
        if not self.often():
            recall = {"msg_id": ids[0], "topic": topic, "success": self.often(), "layout": "recall_7"}
            self.record(producer, ("Recall", sent + timedelta(seconds=2), recall))
        for group in self.draw(st.lists(st.sampled_from(["stock", "ns%stock", "mail"]), max_size=2)):
            self.consume(ids, group, sent)

    def ask(self, ago: timedelta) -> None:
        """A collection of broker facts."""
        expressions = ["*", "a", "a || c", "b", "weight > 3", None, None]
        found = {(t, g): self.one_of(expressions) for t in ("orders", "ns%orders", "audit") for g in GROUPS}
        known = {key: expression for key, expression in found.items() if expression}
        before = self.history.answers[-1].collection.ends if self.history.answers else {}
        ends = {t: before.get(t, 0) + self.one_of([0, 10, 10]) for t in ("orders", "ns%orders", "audit")}
        offsets = {
            (t, g): self.one_of([None, end - 5, end, end, end])
            for t, end in ends.items()
            for g in GROUPS
            if self.has_namespace or "%" not in t
        }
        offsets |= {key: 0 for key, offset in offsets.items() if offset is not None and offset < 0}
        committed = {key: offset for key, offset in offsets.items() if offset is not None}
        groups = frozenset(g for g in GROUPS if self.often())
        connected = frozenset(("consumer", g) for g in GROUPS if self.one_of([True, False, False]))
        at = WATERMARK - ago
        first = self.draw(st.integers(0, len(STATES) - 1))
        asked = [each for each, sent in self.unconsumed.items() if sent <= at and self.often()]
        checks = tuple(
            self.check(each, STATES[(first + number) % len(STATES)], at, ends["orders"])
            for number, each in enumerate(asked)
        )
        collection = Collection(
            *(at, groups, ends, committed),
            connected=connected,
            tracing=frozenset(each for each in connected if self.often()),
            checks=checks,
            two_clients=frozenset(g for g in GROUPS if not self.often()),
            pull_offsets={
                each: self.one_of([offset - 5, offset]) for each, offset in committed.items() if self.often()
            },
        )
        self.history.answers.append(Answers(collection, known))

    def check(self, msg_id: str, state: str, at: datetime, end: int) -> Check:
        """What a broker said of a message, whether it fits to the offsets or not."""
        if state == "unknown":
            return Check("orders", msg_id, "stock", state, is_stored=self.one_of([False, False, None]))
        if state == "not_delivered":
            held_as = self.one_of(["delay", "timer", "transaction"])
            due = None if held_as == "transaction" else at + self.one_of([*WAITS, timedelta(hours=50)])
            return Check("orders", msg_id, "stock", state, held_as=held_as, due_at=due)
        offset, stored_at = self.draw(st.integers(0, end)), self.one_of([None, at - timedelta(days=2)])
        return Check("orders", msg_id, "stock", state, queue_offset=offset, stored_at=stored_at)

    def not_consumed(self) -> None:
        """A group that consumes a topic, and messages of the topic that it does not consume, with and without its tag."""
        pub = {"topic": "orders", "group_name": "shop", "cost_ms": 3.0, "success": True, "msg_type": "normal"}
        pub |= {"layout": "pub_14", "keys": ""}
        first = WATERMARK - timedelta(days=6)
        call = {
            "msg_id": "f0",
            "request_id": "qf0",
            "group_name": "stock",
            "layout": "sub_before_8",
            "keys": "dKey",
        }
        self.record(
            "10.0.0.1:1", ("Pub", first, pub | {"msg_id": "f0", "offset_msg_id": "o-f0", "tags": "a"})
        )
        self.record("10.0.0.2:1", ("SubBefore", first, call | {"retry_times": 0}))
        if self.often():
            later = call | {"msg_id": "f9", "request_id": "qf9", "retry_times": 0}
            at = WATERMARK - timedelta(hours=self.one_of([2, 48, 72]))
            self.record("10.0.0.1:1", ("Pub", at, pub | {"msg_id": "f9", "offset_msg_id": "o-f9"}))
            self.record("10.0.0.2:1", ("SubBefore", at, later))
        for number in range(1, 9):
            sent = WATERMARK - timedelta(hours=self.one_of([1, 5, 20, 47, 48, 49, 71, 72, 90, 120]))
            more = {
                "msg_id": f"f{number}",
                "offset_msg_id": f"o-f{number}",
                "tags": self.one_of(["a", "b", "null"]),
            }
            self.record("10.0.0.1:1", ("Pub", sent, pub | more))
            self.unconsumed[more["msg_id"]] = sent
            if self.one_of([True, False, False]):
                self.fail(more["msg_id"], sent + self.one_of(WAITS))

    def fail(self, msg_id: str, time: datetime) -> None:
        """An attempt that returned later, or not at all."""
        call = {"request_id": f"q{msg_id}", "group_name": "stock"}
        begin = call | {"msg_id": msg_id, "layout": "sub_before_8", "keys": "dKey"}
        end = call | {"msg_id": msg_id, "layout": "sub_after_9", "success": False, "context_code": "failed"}
        self.record("10.0.0.2:1", ("SubBefore", time, begin | {"retry_times": self.one_of([0, 3, 16])}))
        if self.often():
            self.record("10.0.0.2:1", ("SubAfter", time + timedelta(seconds=1), end))

    def decide(self, producer: str, msg_id: str, sent: datetime) -> None:
        end = {
            "msg_id": msg_id,
            "topic": "orders",
            "group_name": "shop",
            "transaction_state": self.one_of(["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"]),
            "from_transaction_check": self.draw(st.booleans()),
            "layout": "end_transaction_13",
        }
        self.record(producer, ("EndTransaction", sent + self.one_of(WAITS), end))

    def consume(self, ids: list[str], group: str, sent: datetime) -> None:
        """Up to three tries of one message, or of all of a batch in one call."""
        time = sent + self.one_of(WAITS)
        called = ids if self.often() else [ids[0]]
        for retry in self.one_of([[0], [0], [0, 1], [0, 0], [1, 2], [0, 1, 16]]):
            call = {"request_id": self.one_of([f"q{n}" for n in range(40)] + [GO_ID])}
            client, code = self.client(), self.one_of(CODES)
            begin = call | {
                "group_name": group,
                "retry_times": retry,
                "layout": "sub_before_8",
                "keys": "dKey",
            }
            cost = self.one_of([timedelta(milliseconds=4), timedelta(minutes=1), timedelta(hours=3)])
            end = call | {
                "group_name": self.one_of([None, group]),
                "cost_ms": float(cost / timedelta(milliseconds=1)),
                "success": code in ("success", "timeout"),
                "context_code": code,
                "layout": "sub_after_9",
            }
            self.record(client, *(("SubBefore", time, begin | {"msg_id": each}) for each in called))
            if self.often():  # else it never returned, or has not yet
                self.record(client, *(("SubAfter", time + cost, end | {"msg_id": each}) for each in called))
            time += cost + self.one_of(WAITS)


@st.composite
def histories(draw: st.DrawFn, batches: int) -> History:
    """Up to seven messages and what became of them; sometimes a stretch of store time that was never read."""
    teller = _Teller(draw, batches)
    for _ in range(draw(st.integers(1, 7))):
        teller.message()
    if not teller.often():
        until = WATERMARK - teller.one_of(AGES)
        teller.history.gaps.append((teller.one_of([None, until - timedelta(minutes=10)]), until))
    if draw(st.integers(0, 2)) == 0:
        teller.not_consumed()
        for days in range(2 * batches, 0, -2):
            teller.ask(timedelta(days=days) - teller.one_of([timedelta(0), timedelta(hours=47)]))
        teller.ask(timedelta(minutes=4))
    return teller.history


def drawn(count: int, batches: int, number: int) -> list[History]:
    """So many histories with records, always the same for a number."""
    found: list[History] = []

    @seed(number)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(histories(batches))
    def collect(history: History) -> None:
        if history.records:
            found.append(history)

    collect()
    return found
