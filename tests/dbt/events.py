"""Hand-made rows of `lake.events.trace_records`, as the decoder would have written them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.lake import tables
from spark_jobs.lake.offsets import CHANGE_SEQ, OFFSETS, Position, Queue, to_json

CLUSTER = "test"
NOON = datetime(2026, 11, 20, 12, 0, 0)
QUEUE = Queue(CLUSTER, "RMQ_SYS_TRACE_TOPIC", "broker-a", 0)


def at(seconds: float) -> datetime:
    """A time, in seconds from noon, UTC."""
    return NOON + timedelta(seconds=seconds)


def _ms(time: datetime) -> int:
    return int((time - datetime(1970, 1, 1)).total_seconds() * 1000)


@dataclass
class Events:
    """Records in the order in which they are added; each becomes one row."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, record_type: str, seconds: float | None, **columns: Any) -> dict[str, Any]:
        """A record of that time (None: the wire has none), stored a second later."""
        time = None if seconds is None else at(seconds)
        row: dict[str, Any] = dict.fromkeys(tables.EVENTS.column_names)
        row |= {
            "cluster": CLUSTER,
            "trace_topic": QUEUE.trace_topic,
            "broker": QUEUE.broker,
            "queue_id": QUEUE.queue_id,
            "epoch": 0,
            "queue_offset": len(self.rows),
            "record_index": 0,
            "store_time": (time or NOON) + timedelta(seconds=1),
            "born_host": "10.0.0.1:1000",
            "record_type": record_type,
            "event_time": time,
            "event_time_suspect": None if time is None else False,
            "decoder_version": "test",
            "change_seq": 1,
        }
        row |= columns
        self.rows.append(row)
        return row

    def pub(self, msg_id: str, seconds: float = 0, topic: str = "orders", cost: float = 3, **columns: Any):
        return self.add(
            "Pub",
            seconds,
            **{
                "msg_id": msg_id,
                "topic": topic,
                "group_name": "producers",
                "cost_ms": float(cost),
                "success": True,
                "msg_type": "normal",
                "offset_msg_id": ",".join(f"o-{i}" for i in msg_id.split(",")),
                "store_host": "10.0.0.9:10911",
                "layout": "pub_14",
                "tags": "null",
                "keys": "",
            }
            | columns,
        )

    def begin(
        self,
        msg_id: str,
        request_id: str,
        seconds: float = 1,
        group: str = "g",
        retry: int = 0,
        **columns: Any,
    ):
        return self.add(
            "SubBefore",
            seconds,
            **{
                "msg_id": msg_id,
                "request_id": request_id,
                "group_name": group,
                "retry_times": retry,
                "layout": "sub_before_8",
                "keys": "dKey",
            }
            | columns,
        )

    def end(
        self,
        msg_id: str,
        request_id: str,
        seconds: float | None = 2,
        code: str | None = "success",
        **columns: Any,
    ):
        return self.add(
            "SubAfter",
            seconds,
            **{
                "msg_id": msg_id,
                "request_id": request_id,
                "cost_ms": 5.0,
                "success": code in ("success", "timeout"),
                "context_code": code,
                "layout": "sub_after_9",
            }
            | columns,
        )

    def attempt(
        self,
        msg_id: str,
        request_id: str,
        seconds: float = 1,
        code: str = "success",
        group: str = "g",
        **columns: Any,
    ):
        """A begin, and its end a second later."""
        self.begin(msg_id, request_id, seconds, group, **columns)
        self.end(msg_id, request_id, seconds + 1, code, group_name=group)

    def write(
        self, spark: SparkSession, watermark: float, change_seq: int = 1, complete_to: dict | None = None
    ) -> None:
        """Publish the rows as a merge would, complete to `watermark` (seconds from noon)."""
        position = Position(len(self.rows), 0, _ms(at(watermark)), 1, 1, complete_to=_ms(at(watermark)))
        rows = [tuple(row.values()) for row in self.rows]
        (
            spark.createDataFrame(rows, tables.EVENTS.schema)
            .coalesce(1)
            .writeTo(tables.EVENTS.full_name)
            .option(f"snapshot-property.{CHANGE_SEQ}", str(change_seq))
            .option(f"snapshot-property.{OFFSETS}", to_json({QUEUE: position} | (complete_to or {})))
            .append()
        )
