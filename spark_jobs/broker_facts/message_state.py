"""The state of a stored message for a consumer group; pure (docs/broker_facts.md has the definitions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.broker_facts.parse import Subscription
from spark_jobs.broker_facts.stored_messages import StoredMessage


class State(StrEnum):
    """The first that applies."""

    RECALLED = "recalled"
    BROADCASTING = "broadcasting"
    FILTERED = "filtered"
    NOT_DELIVERED = "not_delivered"
    DEAD_LETTER = "dead_letter"
    RETRYING = "retrying"
    CONSUMED = "consumed"
    CONSUMED_OR_FILTERED = "consumed_or_filtered"
    NOT_CONSUMED = "not_consumed"
    OFFLINE = "offline"
    UNKNOWN = "unknown"


# A later look-up would tell the same.
FINAL = frozenset(
    {
        State.RECALLED,
        State.BROADCASTING,
        State.FILTERED,
        State.DEAD_LETTER,
        State.CONSUMED,
        State.CONSUMED_OR_FILTERED,
    }
)


@dataclass(frozen=True)
class GroupFacts:
    """What the broker of a message says of a group.

    Attributes:
        online: whether a consumer of the group is connected; None if unknown.
        message_model: CLUSTERING or BROADCASTING, the last known; None if unknown.
        subscription: to the topic, the last known; None if unknown, or if there is none.
        are_offsets_known: whether the committed offsets were answered.
        offsets: (topic, queue id) to committed offset; a missing one was never committed.
    """

    online: bool | None
    message_model: str | None
    subscription: Subscription | None
    are_offsets_known: bool
    offsets: Mapping[tuple[str, int], int]

    def offset_of(self, message: StoredMessage) -> int | None:
        return self.offsets.get((message.topic, message.queue_id))

    def has_passed(self, message: StoredMessage) -> bool:
        """Whether the committed offset is above the message: consumed, filtered, sent back, or skipped by a reset."""
        offset = self.offset_of(message)
        return offset is not None and offset > message.queue_offset


@dataclass(frozen=True)
class Copies:
    """What was made of a message when the group's consumers sent it back: those with its id in the retry and dead-letter topics.

    Attributes:
        dead_letters: in the group's dead-letter topic, or on their way there.
        retries: in its retry topic.
        waiting: delayed, for its retry topic; those that were delivered since are there, too.
    """

    dead_letters: tuple[StoredMessage, ...] = ()
    retries: tuple[StoredMessage, ...] = ()
    waiting: tuple[StoredMessage, ...] = ()


NO_COPIES = Copies()


def includes(subscription: Subscription | None, tags: str | None) -> bool | None:
    """Whether a subscription includes a message with these tags; None if only the client's filter decides."""
    if subscription is None or subscription.class_filter or subscription.expression_type != "TAG":
        return None
    if subscription.expression == "*" or not subscription.tags:
        return True
    return tags in subscription.tags


def is_in_retry(group: GroupFacts, copies: Copies) -> bool:
    """Whether a copy waits for the next attempt: delayed, or in the retry topic beyond the group's offset."""
    if any(not group.has_passed(copy) for copy in copies.retries):
        return True
    delivered = max((copy.reconsume_times for copy in copies.retries), default=-1)
    return any(copy.reconsume_times > delivered for copy in copies.waiting)


def state_of(
    message: StoredMessage | None,
    is_held: bool | None,
    group: GroupFacts,
    copies: Copies = NO_COPIES,
    is_recalled: bool = False,
) -> State:
    """Judge a message for a group.

    Args:
        message: as it is stored, delivered or held; None if it was not found.
        is_held: the broker has not delivered it to its topic; None if that is unknown.
        group: what the broker of the message says of the group.
        copies: empty where the group has not passed the message.
        is_recalled: the broker holds a recall of it, too.
    """
    if message is None:
        return State.UNKNOWN
    if is_held and is_recalled:
        return State.RECALLED
    if group.message_model == "BROADCASTING":
        return State.BROADCASTING
    included = includes(group.subscription, message.tags)
    if included is False:
        return State.FILTERED
    if is_held:
        return State.NOT_DELIVERED
    if is_held is None or not group.are_offsets_known:
        return State.UNKNOWN
    if group.has_passed(message):
        if copies.dead_letters:
            return State.DEAD_LETTER
        if is_in_retry(group, copies):
            return State.RETRYING
        return State.CONSUMED if included else State.CONSUMED_OR_FILTERED
    if group.online is None:
        return State.UNKNOWN
    return State.NOT_CONSUMED if group.online else State.OFFLINE
