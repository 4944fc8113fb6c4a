"""The life of a message, as its traces and the marts show it: what the page and the command of the look-up print.

All times are naive, in UTC. `as_json` gives the same as JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime


@dataclass(frozen=True)
class Usual:
    """What a duration is compared with: the percentiles of the same topic or group in the same hour.

    Attributes:
        p50_ms: median, ms.
        p99_ms: 99th percentile, ms.
        cases: sends, attempts or deliveries that the percentiles are of.
        of: what they are of, such as `sends of producers-1 to orders`.
    """

    p50_ms: float
    p99_ms: float
    cases: int
    of: str


@dataclass(frozen=True)
class Duration:
    """A duration of the message, and the usual one; None if the hour has no percentiles."""

    ms: float
    usual: Usual | None


@dataclass(frozen=True)
class Step:
    """Something that happened to the message before consumption, or that its producer decided.

    Attributes:
        at: when; None if unknown.
        what: sent, stored, commit, rollback, unknown, recalled, or due.
        text: a sentence for a person.
        client: the client that did it.
        duration: how long it took.
        record: the anchor of its record in `records`.
    """

    at: datetime | None
    what: str
    text: str
    client: str | None = None
    duration: Duration | None = None
    record: str | None = None


@dataclass(frozen=True)
class Attempt:
    """A listener call.

    Attributes:
        request_id: id of the call.
        begun_at: by the client's clock, else when it was recorded.
        ended_at: None if unknown.
        client: where it ran.
        retry_times: redeliveries before it; None if its SubBefore is missing.
        outcome: as in fct_consume_attempts.
        wait: of the first attempt from the publication; of the others, ms since the attempt before ended.
        duration: of the listener call.
        records: anchors of its records.
    """

    request_id: str | None
    begun_at: datetime | None
    ended_at: datetime | None
    client: str | None
    retry_times: int | None
    outcome: str
    wait: Duration | None
    duration: Duration | None
    records: tuple[str, ...]


@dataclass(frozen=True)
class Lane:
    """What one consumer group did with the message; of a broadcast group, one client of it.

    Attributes:
        consumer_group: None for attempts without a group.
        client: of a broadcast group.
        outcome: as in fct_deliveries; None without a group.
        meaning: the outcome in words.
        retries: redeliveries.
        end_to_end: from the publication to the end of the first success.
        attempts: first to last; the first `lanes.ATTEMPTS` of them.
        attempts_total: the number of all.
    """

    consumer_group: str | None
    client: str | None
    outcome: str | None
    meaning: str
    retries: int
    end_to_end: Duration | None
    attempts: tuple[Attempt, ...]
    attempts_total: int


@dataclass(frozen=True)
class Absent:
    """An expected consumer group that has not consumed the message: a row of orphaned_messages.

    Attributes:
        consumer_group: None if no group was expected.
        cause: as in orphaned_messages.
        meaning: the cause in words.
        is_orphan: whether the cause does not explain the absence.
    """

    consumer_group: str | None
    cause: str
    meaning: str
    is_orphan: bool


@dataclass(frozen=True)
class Doubt:
    """A reason not to trust what is shown: its kind, and a sentence."""

    kind: str
    text: str


@dataclass(frozen=True)
class Summary:
    """A row of fct_messages: the message in one topic. The topic is None if the message was consumed and no send is known."""

    topic: str | None
    state: str
    meaning: str
    published_at: datetime | None
    producer_group: str | None
    msg_type: str | None
    is_delayed: bool
    transaction_state: str | None


@dataclass(frozen=True)
class Life:
    """All that is known of one message id of a cluster.

    Attributes:
        cluster: RocketMQ cluster.
        msg_id: message id.
        messages: one per topic that it was sent to.
        keys: user keys.
        tags: of its first send.
        offset_msg_ids: the broker's ids.
        steps: sends and decisions, in order; the first `message.STEPS` of them.
        steps_total: the number of all.
        lanes: one per consumer group and, of broadcast groups, client.
        absent: expected groups without it.
        siblings: the other messages of its batch; the first `message.SIBLINGS` of them.
        siblings_total: the number of all.
        doubts: reasons not to trust this.
        trace_url: the link to the trace of an APM, by the setting `lookup.trace_url`.
        publication_id: the publication of the marts that was read.
        watermark: the time up to which the traces of the cluster are complete.
        files_read: data files that were opened for this.
        files_total: all data files of these tables.
    """

    cluster: str
    msg_id: str
    messages: tuple[Summary, ...]
    keys: tuple[str, ...]
    tags: str | None
    offset_msg_ids: tuple[str, ...]
    steps: tuple[Step, ...]
    steps_total: int
    lanes: tuple[Lane, ...]
    absent: tuple[Absent, ...]
    siblings: tuple[str, ...]
    siblings_total: int
    doubts: tuple[Doubt, ...]
    trace_url: str | None
    publication_id: str
    watermark: datetime | None
    files_read: int
    files_total: int

    @property
    def published_at(self) -> datetime | None:
        return min((m.published_at for m in self.messages if m.published_at), default=None)


def as_json(found: object) -> str:
    """A dataclass of the look-up as JSON; times are ISO 8601, in UTC."""
    text = json.dumps(asdict(found), default=_time, indent=2, ensure_ascii=False)  # type: ignore[call-overload]
    # Bytes of an argument that are not UTF-8 are surrogates, which JSON can only have as escapes.
    return text.encode("utf-8", "backslashreplace").decode()


def _time(value: object) -> str:
    assert isinstance(value, datetime)
    return f"{value.isoformat(timespec='milliseconds')}Z"
