r"""The record layouts that RocketMQ clients write, as data; the decoder is generated from this table.

A trace message's body is a sequence of records. `\x01` separates the fields of a record, `\x02` ends each record. The
first field is the record's type. "Add a record layout" in docs/architecture.md lists what a new layout needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

FIELD_SEPARATOR = "\x01"
RECORD_SEPARATOR = "\x02"


class Kind(StrEnum):
    """The format of a field; its value is in `invalid_reason`."""

    TEXT = "text"
    INTEGER = "integer"  # digits only
    TIME = "time"  # digits only, ms since 1970
    NUMBER = "number"  # Lua writes fractional costs
    BOOLEAN = "boolean"
    STORE_HOST = "store_host"  # host:port, "null" or empty
    CLIENT_HOST = "client_host"  # an IP address, perhaps with @pid


@dataclass(frozen=True)
class Field:
    """A field on the wire: its column (None: it is validated, but not stored) and its kind."""

    column: str | None
    kind: Kind = Kind.TEXT


FIELDS = {
    "time": Field("event_time", Kind.TIME),
    "region": Field("region"),
    "group": Field("group_name"),
    "topic": Field("topic"),
    "msgId": Field("msg_id"),
    "tags": Field("tags"),
    "keys": Field("keys"),
    "storeHost": Field("store_host", Kind.STORE_HOST),
    "bodyLength": Field("body_length", Kind.INTEGER),
    "cost": Field("cost_ms", Kind.NUMBER),
    "msgType": Field("msg_type", Kind.INTEGER),
    "offsetMsgId": Field("offset_msg_id"),
    "success": Field("success", Kind.BOOLEAN),
    "clientHost": Field("client_host", Kind.CLIENT_HOST),
    "requestId": Field("request_id"),
    "retryTimes": Field("retry_times", Kind.INTEGER),
    "contextCode": Field("context_code", Kind.INTEGER),
    "transactionId": Field("transaction_id"),
    "transactionState": Field("transaction_state"),
    "fromTransactionCheck": Field("from_transaction_check", Kind.BOOLEAN),
    "exactlyOnceStatus": Field(None, Kind.INTEGER),
}

RECORD_TYPES = ("Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall")

# A number with an optional fraction, with at most as many digits as a finite double has.
NUMBER = "-?[0-9]{1,308}(?:[.][0-9]+)?"

# Numbers on the wire, from TraceConstants' MessageType and ConsumeReturnType of the Java client.
MSG_TYPES = ("normal", "half", "commit", "delay", "order")
CONTEXT_CODES = ("success", "timeout", "exception", "returned_null", "failed")


@dataclass(frozen=True)
class Layout:
    """One layout: `fields` are the names in wire order, without the type token.

    The type token is the first field; with `type_last` it is the last one.
    """

    name: str
    record_type: str
    fields: tuple[str, ...]
    writers: str
    type_last: bool = False

    @property
    def count(self) -> int:
        """Fields on the wire, the type token included."""
        return len(self.fields) + 1

    def position(self, column: str) -> int | None:
        """The 0-based position of the field of `column`; None if the layout has none."""
        for index, name in enumerate(self.fields, start=0 if self.type_last else 1):
            if FIELDS[name].column == column:
                return index
        return None

    def wire(self, values: Mapping[str, str]) -> list[str]:
        """The fields of a record in wire order; `values` by field name."""
        fields = [values[name] for name in self.fields]
        return [*fields, self.record_type] if self.type_last else [self.record_type, *fields]


def _layout(name: str, record_type: str, fields: str, writers: str, type_last: bool = False) -> Layout:
    return Layout(name, record_type, tuple(fields.split()), writers, type_last)


_PUB = "time region group topic msgId tags keys storeHost"
_PUB_12 = f"{_PUB} bodyLength cost msgType"
_PUB_14 = f"{_PUB_12} offsetMsgId success"
_SUB_BEFORE = "time region group requestId msgId retryTimes keys"
_SUB_AFTER = "requestId msgId cost success keys"
_NEWLIFE = "topic msgId tags keys storeHost bodyLength cost"

LAYOUTS = (
    _layout("pub_12", "Pub", _PUB_12, "before 4.4.0 and early ONS"),
    _layout("pub_13", "Pub", f"{_PUB_12} success", "older ONS, maihaoche starter"),
    _layout("pub_14", "Pub", _PUB_14, "Java except 4.8.0, Go up to 2.1.0, C++, Python, Lua"),
    _layout("pub_15", "Pub", f"{_PUB_14} clientHost", "Java 4.8.0, Go from 2.1.1, Rust, pyrocketmq"),
    _layout(
        "pub_15_rmqsdk",
        "Pub",
        f"{_PUB} clientHost bodyLength cost msgType offsetMsgId success",
        "rocketmq-enhance-client",
    ),
    _layout(
        "sub_before_8", "SubBefore", _SUB_BEFORE, "Java except 4.8.0, Go up to 2.1.0, C++, ONS, Lua, Rust"
    ),
    _layout(
        "sub_before_9", "SubBefore", f"{_SUB_BEFORE} clientHost", "Java 4.8.0, Go from 2.1.1, pyrocketmq"
    ),
    _layout("sub_after_6", "SubAfter", _SUB_AFTER, "C++, Python, older ONS"),
    _layout(
        "sub_after_7",
        "SubAfter",
        f"{_SUB_AFTER} contextCode",
        "Java 4.4.0-4.7.1 and 4.9.1, Go up to 2.1.0, Java with access channel CLOUD",
    ),
    _layout("sub_after_8_ons", "SubAfter", f"{_SUB_AFTER} contextCode exactlyOnceStatus", "rocketmq-ons SDK"),
    _layout(
        "sub_after_9",
        "SubAfter",
        f"{_SUB_AFTER} contextCode time group",
        "Java 4.8.0, 4.9.0, 4.9.2 and later; Go from 2.1.1, Rust, Lua, pyrocketmq",
    ),
    _layout(
        "sub_after_10_rmqsdk",
        "SubAfter",
        "time requestId msgId clientHost group cost success keys contextCode",
        "rocketmq-enhance-client",
    ),
    _layout(
        "end_transaction_13",
        "EndTransaction",
        f"{_PUB} msgType transactionId transactionState fromTransactionCheck",
        "Java 4.9.0 and later, Rust, Lua",
    ),
    _layout("recall_7", "Recall", "time region group topic msgId success", "Java 5.3.2 and later, Rust"),
    _layout("pub_8_newlife", "Pub", _NEWLIFE, "NewLife.RocketMQ (C#)", type_last=True),
    _layout("sub_before_8_newlife", "SubBefore", _NEWLIFE, "NewLife.RocketMQ (C#)", type_last=True),
    _layout("sub_after_8_newlife", "SubAfter", _NEWLIFE, "NewLife.RocketMQ (C#)", type_last=True),
)
BY_NAME = {layout.name: layout for layout in LAYOUTS}
COLUMNS = tuple(dict.fromkeys(f.column for f in FIELDS.values() if f.column))
WIRE_NAMES = {f.column: name for name, f in FIELDS.items() if f.column}
KINDS = {f.column: f.kind for f in FIELDS.values() if f.column}

MAX_COUNT = max(layout.count for layout in LAYOUTS)


def candidate(record_type: str, count: int, last_empty: bool) -> Layout | None:
    """The only layout that a record with this type, field count and last field can have.

    The count is tried as it is and, if the last field is empty, minus one: some tools write a separator after the last
    field. Java's access channel CLOUD does so in a SubAfter (5.3.1 and later; earlier versions append the next record
    without a separator, and `pieces` splits it first). `matching` distinguishes layouts of the same count (pub_15 and
    pub_15_rmqsdk) and finds those with the type last, whose first field is a topic.
    """
    for wanted in (count, count - 1) if last_empty else (count,):
        for layout in LAYOUTS:
            if layout.type_last or layout.record_type != record_type or layout.count != wanted:
                continue
            # An empty last field is valid only for text.
            if wanted == count and last_empty and FIELDS[layout.fields[-1]].kind is not Kind.TEXT:
                continue
            return layout
    return None
