"""The raw records of a message: the bytes that its clients wrote."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from spark_jobs.lookup.reader import Reader, Row
from spark_jobs.trace.glued import split
from spark_jobs.trace.layouts import FIELD_SEPARATOR

LIMIT = 200
_COLUMNS = (
    "record_type, layout, msg_id, offset_msg_id, request_id, transaction_state, event_time, "
    "trace_topic, broker, queue_id, epoch, queue_offset, record_index, store_time, born_host"
)
_POSITION = ("trace_topic", "broker", "queue_id", "epoch", "queue_offset")
_QUEUE_POSITION = ("trace_topic", "broker", "queue_id", "queue_offset")


@dataclass(frozen=True)
class RawRecord:
    """A trace record as its client wrote it.

    Attributes:
        anchor: the name by which steps and attempts refer to it; copies of a record have the same.
        record_type: Pub, SubBefore, SubAfter, EndTransaction or Recall.
        layout: that of the decoder.
        trace_topic: with broker, queue_id, epoch and queue_offset the position of its trace message.
        record_index: its 0-based place in the body.
        store_time: of the trace message, by the broker's clock, UTC.
        born_host: the address that the trace message came from.
        text: the record with its field separators shown as `|`; bytes that are not UTF-8 become U+FFFD. None if raw does
            not have the message any more.
    """

    anchor: str
    record_type: str
    layout: str | None
    trace_topic: str
    broker: str
    queue_id: int
    epoch: int | None
    queue_offset: int
    record_index: int
    store_time: datetime
    born_host: str | None
    text: str | None


@dataclass(frozen=True)
class RecordsOf:
    """The raw records of a message."""

    cluster: str
    msg_id: str
    records: tuple[RawRecord, ...]


def anchor(record_type: str, discriminator: str | None, event_time: datetime | None) -> str:
    """The name of a record within its message, for a link.

    Args:
        record_type: its type.
        discriminator: the broker's id of a Pub, the request id of a SubBefore or SubAfter, the state of an EndTransaction.
        event_time: time in the record, of a Pub, EndTransaction or Recall.
    """
    of = f"{discriminator or ''} {event_time or ''}"
    return f"{record_type}-{hashlib.sha256(of.encode('utf-8', 'replace')).hexdigest()[:12]}"


def records(reader: Reader, cluster: str, msg_id: str) -> list[RawRecord]:
    """The records that name the message, in the order in which the broker stored them; at most `LIMIT`."""
    hours = reader.hours(cluster, msg_id)
    rows = reader.rows(
        "events.trace_records",
        hours,
        "cluster = $cluster and record_type != 'Invalid' and (msg_id = $msg_id or offset_msg_id = $msg_id "
        "or (record_type = 'Pub' and (contains(msg_id, $msg_id) and list_contains(string_split(msg_id, ','), $msg_id) "
        "or contains(offset_msg_id, $msg_id) and list_contains(string_split(offset_msg_id, ','), $msg_id)))) "
        f"order by store_time, queue_offset, record_index limit {LIMIT}",
        _COLUMNS,
        cluster=cluster,
        msg_id=msg_id,
    )
    bodies = _bodies(reader, cluster, rows)
    return [_record(row, msg_id, bodies) for row in rows]


def _bodies(reader: Reader, cluster: str, rows: list[Row]) -> dict[tuple[object, ...], bytes]:
    wanted = sorted({tuple(row[name] for name in _QUEUE_POSITION) for row in rows})
    topics, brokers, queues, offsets = map(list, zip(*wanted, strict=True)) if wanted else ([], [], [], [])
    hours = sorted({row["store_time"].replace(minute=0, second=0, microsecond=0) for row in rows})
    found = reader.rows(
        "raw.trace_messages",
        hours,
        "cluster = $cluster and body is not null and queue_offset in (select unnest($offsets)) and "
        f"({', '.join(_QUEUE_POSITION)}) in (select (t, b, q::int, o::bigint) from (select unnest($topics) as t, "
        "unnest($brokers) as b, unnest($queues) as q, unnest($offsets) as o))",
        ", ".join((*_POSITION, "body")),
        cluster=cluster,
        topics=topics,
        brokers=brokers,
        queues=queues,
        offsets=offsets,
    )
    return {tuple(row[name] for name in _POSITION): row["body"] for row in found}


def _record(row: Row, msg_id: str, bodies: dict[tuple[object, ...], bytes]) -> RawRecord:
    body = bodies.get(tuple(row[name] for name in _POSITION))
    pieces = split(body.decode("utf-8", "replace")) if body is not None else []
    index = row["record_index"]
    text = pieces[index].replace(FIELD_SEPARATOR, "|") if index < len(pieces) else None
    return RawRecord(
        anchor=_anchor_of(row, msg_id),
        record_type=row["record_type"],
        layout=row["layout"],
        trace_topic=row["trace_topic"],
        broker=row["broker"],
        queue_id=row["queue_id"],
        epoch=row["epoch"],
        queue_offset=row["queue_offset"],
        record_index=index,
        store_time=row["store_time"],
        born_host=row["born_host"],
        text=text,
    )


def _anchor_of(row: Row, msg_id: str) -> str:
    if row["record_type"] == "Pub":
        ids = (row["msg_id"] or "").split(",")
        offset_ids = (row["offset_msg_id"] or "").split(",")
        at = ids.index(msg_id) if msg_id in ids else 0
        offset_msg_id = offset_ids[at] if at < len(offset_ids) else None
        return anchor("Pub", None if offset_msg_id in ("", "null") else offset_msg_id, row["event_time"])
    if row["record_type"] in ("SubBefore", "SubAfter"):
        return anchor(row["record_type"], row["request_id"], None)
    return anchor(row["record_type"], row["transaction_state"], row["event_time"])
