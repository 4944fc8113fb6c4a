"""What is kept of a stored message: its place and the properties that are named here, never its body; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from spark_jobs.rocketmq.errors import MalformedMessageError
from spark_jobs.rocketmq.message import Message, scan_messages

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
# The topics in which a broker holds messages until they are due or committed, and why.
HOLDING_TOPICS = {
    SCHEDULE_TOPIC: "delay",
    TIMER_TOPIC: "timer",
    "RMQ_SYS_TRANS_HALF_TOPIC": "transaction",
}
_RECALL_TAG = "_RECALL_TAG_"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class StoredMessage:
    """A message in the commit log.

    Attributes:
        topic: where it is stored, with its namespace; a system topic while the broker holds it.
        queue_id: its queue there.
        queue_offset: its offset in that queue.
        physical_offset: its offset in the commit log.
        stored_at: when it was stored there, UTC.
        unique_key: the message id; None if its client set none.
        tags: None if it has none.
        real_topic: of a held message, the topic that it is for; otherwise `topic`.
        delay_level: None if it has none.
        timer_at: when the timer delivers it, UTC; None without a timer.
        reconsume_times: how often it was retried.
        region: that of the broker which stored it (`MSG_REGION`); a message of a batch has none.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    stored_at: datetime
    unique_key: str | None
    tags: str | None
    real_topic: str
    delay_level: int | None
    timer_at: datetime | None
    reconsume_times: int
    region: str | None = None

    @property
    def is_recall(self) -> bool:
        """Whether it is no message but the recall of the timer message that has its unique key."""
        return self.topic == TIMER_TOPIC and self.tags == _RECALL_TAG

    @property
    def held_as(self) -> str | None:
        """Why the broker holds it: delay, timer or transaction; None if it is in its own topic."""
        return HOLDING_TOPICS.get(self.topic)


def stored_messages(body: bytes) -> list[StoredMessage]:
    """The messages in an answer of VIEW_MESSAGE_BY_ID or QUERY_MESSAGE.

    Raises:
        ValueError: the answer has another shape; the text does not contain it.
    """
    try:
        return [_kept(message) for message in scan_messages(body)]
    except (MalformedMessageError, ValueError, OverflowError, OSError) as error:
        raise ValueError(f"stored_messages: the answer has another shape ({type(error).__name__})") from None


def _kept(message: Message) -> StoredMessage:
    named = message.properties
    is_held = message.topic in HOLDING_TOPICS
    timer_ms = _whole(named.get("TIMER_OUT_MS"))
    return StoredMessage(
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        stored_at=datetime.fromtimestamp(message.store_time / 1000, UTC),
        unique_key=named.get("UNIQ_KEY"),
        tags=named.get("TAGS") or None,
        real_topic=named.get("REAL_TOPIC", message.topic) if is_held else message.topic,
        delay_level=_whole(named.get("DELAY")),
        timer_at=None if timer_ms is None else datetime.fromtimestamp(timer_ms / 1000, UTC),
        reconsume_times=message.reconsume_times,
        region=named.get("MSG_REGION"),
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def due_at(message: StoredMessage, delay_levels: str | None) -> datetime | None:
    """When the broker delivers a message that it holds, UTC; None if it is not delayed, or its level is unknown.

    A delivered message says so only if a timer delivered it: its store time is that of the delivery.

    Args:
        message: as it is stored.
        delay_levels: the broker's messageDelayLevel, such as `1s 5s 10s`; None if unknown.
    """
    if message.timer_at is not None:
        return message.timer_at
    if message.topic != SCHEDULE_TOPIC or not message.delay_level:
        return None
    delays = (delay_levels or "").split()
    if message.delay_level > len(delays):
        return None
    found = re.fullmatch(r"(\d+)([smhd])", delays[message.delay_level - 1])
    return message.stored_at + timedelta(seconds=int(found[1]) * _UNITS[found[2]]) if found else None
