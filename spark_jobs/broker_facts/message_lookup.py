"""Ask one broker for messages: by the broker's id, then by topic and unique key; and what was made of them on their way back.

The id of a delayed, timer or transactional message names the copy that the broker holds in a system topic, so the delivered
message is asked for by its key. Bodies are dropped at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from spark_jobs.broker_facts import requests as rq
from spark_jobs.broker_facts.answers import Counts
from spark_jobs.broker_facts.asking import BrokerAsker
from spark_jobs.broker_facts.known_facts import KnownFacts, without_prefixes
from spark_jobs.broker_facts.message_state import Copies
from spark_jobs.broker_facts.parse import DEAD_LETTER_PREFIX, RETRY_PREFIX
from spark_jobs.broker_facts.requests import Request, Status
from spark_jobs.broker_facts.stored_messages import (
    HOLDING_TOPICS,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    StoredMessage,
    stored_messages,
)
from spark_jobs.rocketmq.frames import Frame

_CLOCKS = timedelta(hours=1)  # how far the clock of a producer may be from the broker's
NOT_INDEXED = "not_indexed"
_What = TypeVar("_What")


@dataclass(frozen=True)
class WantedMessage:
    """A message to look up; `physical_offset` is that of the broker's id, None if its client wrote none."""

    topic: str
    msg_id: str
    published_at: datetime
    physical_offset: int | None


@dataclass
class LookedUp:
    """What a broker has of a message.

    Attributes:
        delivered: in its own topic; None if it is not there, or that is unknown.
        held: the copy in a system topic, which stays there after the delivery until it expires.
        recall: of a timer message that was not delivered: its producer took it back.
        unknown: why an answer is missing; None if there are all.
    """

    delivered: StoredMessage | None = None
    held: StoredMessage | None = None
    recall: StoredMessage | None = None
    unknown: str | None = None

    @property
    def message(self) -> StoredMessage | None:
        return self.delivered or self.held


@dataclass
class MessageLookup:
    """The questions to one broker.

    Attributes:
        asker: of the broker.
        broker: its name.
        facts: of its collection.
        reason: of a refused or failed answer, in words.
        counts: request code to what became of its requests.
    """

    asker: BrokerAsker
    broker: str
    facts: KnownFacts
    reason: Callable[[Request, Frame], str]
    counts: dict[int, Counts] = field(default_factory=dict)

    def messages(self, wanted: Iterable[WantedMessage]) -> dict[WantedMessage, LookedUp]:
        """Look up each message."""
        found = {each: LookedUp() for each in wanted}
        self._by_offset(found)
        self._by_key(
            found,
            [
                (each, topic)
                for each, known in found.items()
                if known.delivered is None
                for topic in self._topics(each, known.held)
            ],
        )
        no_id = [each for each, known in found.items() if each.physical_offset is None and not known.message]
        self._by_key(found, [(each, topic) for each in no_id for topic in HOLDING_TOPICS])
        timers = [
            each
            for each, known in found.items()
            if known.delivered is None and known.held and known.held.topic == TIMER_TOPIC
        ]
        self._by_key(
            found,
            [(each, TIMER_TOPIC) for each in timers if found[each].recall is None and each not in no_id],
        )
        return found

    def copies(
        self, passed: Iterable[tuple[WantedMessage, str]]
    ) -> dict[tuple[WantedMessage, str], tuple[Copies, str | None]]:
        """Per message and group: the copies in the group's retry and dead-letter topics, and why some are unknown."""
        pairs = list(passed)
        own = {RETRY_PREFIX: "retries", DEAD_LETTER_PREFIX: "dead_letters"}
        asked: list[tuple[tuple[WantedMessage, str], Request]] = [
            ((each, topic), self._with_key(each, topic))
            for each, group in pairs
            for topic in (prefix + group for prefix in own)
            if self.facts.has_topic(self.broker, topic)
        ]
        delayed = dict.fromkeys(each for each, _ in pairs)
        asked += [((each, SCHEDULE_TOPIC), self._with_key(each, SCHEDULE_TOPIC)) for each in delayed]
        answers = self._ask(asked)
        found = {}
        for each, group in pairs:
            topics = RETRY_PREFIX + group, DEAD_LETTER_PREFIX + group, SCHEDULE_TOPIC
            of_pair = [answers.get((each, topic), ([], None)) for topic in topics]
            retries, dead, waiting = (_of(each, messages) for messages, _ in of_pair)
            copies = Copies(
                dead_letters=(
                    *dead,
                    *(copy for copy in waiting if copy.real_topic == DEAD_LETTER_PREFIX + group),
                ),
                retries=retries,
                waiting=tuple(copy for copy in waiting if copy.real_topic == RETRY_PREFIX + group),
            )
            found[each, group] = copies, next((unknown for _, unknown in of_pair if unknown), None)
        return found

    def _by_offset(self, found: dict[WantedMessage, LookedUp]) -> None:
        """By the broker's id. What expired is not asked for: the broker would log a warning, or return another message."""
        oldest = self.facts.commit_log_min_offset(self.broker)
        asked = [
            (each, rq.message_at(each.physical_offset))
            for each in found
            if each.physical_offset is not None and each.physical_offset >= oldest
        ]
        for each, (messages, unknown) in self._ask(asked).items():
            known = found[each]
            known.unknown = unknown
            for message in messages:
                is_it = message.physical_offset == each.physical_offset and message.unique_key in (
                    None,
                    each.msg_id,
                )
                if is_it and without_prefixes(message.real_topic) == each.topic:
                    known.held, known.delivered = (message, None) if message.held_as else (None, message)

    def _by_key(self, found: dict[WantedMessage, LookedUp], asked: list[tuple[WantedMessage, str]]) -> None:
        """By topic and unique key."""
        if asked and not self.facts.is_indexed(self.broker):
            for each, _ in asked:
                found[each].unknown = NOT_INDEXED
            return
        for (each, topic), (messages, unknown) in self._ask(
            [(pair, self._with_key(*pair)) for pair in asked]
        ).items():
            known = found[each]
            known.unknown = unknown or known.unknown
            of_key = [
                message
                for message in _of(each, messages)
                if without_prefixes(message.real_topic) == each.topic
            ]
            of_topic = [message for message in of_key if not message.is_recall]
            known.recall = known.recall or next((message for message in of_key if message.is_recall), None)
            if of_topic and topic in HOLDING_TOPICS:
                known.held = known.held or of_topic[-1]
            elif of_topic:
                known.delivered, known.unknown = known.delivered or of_topic[0], None

    def _topics(self, each: WantedMessage, held: StoredMessage | None) -> list[str]:
        return [held.real_topic] if held else self.facts.topics_named(self.broker, each.topic)

    def _with_key(self, each: WantedMessage, topic: str) -> Request:
        times = each.published_at - _CLOCKS, self.facts.collection.observed_at + _CLOCKS
        return rq.messages_with_key(topic, each.msg_id, *(int(time.timestamp() * 1000) for time in times))

    def _ask(self, asked: list[tuple[_What, Request]]) -> dict[_What, tuple[list[StoredMessage], str | None]]:
        """The messages of each answer, or why there is none."""
        of_request = {id(request): what for what, request in asked}
        found: dict[_What, tuple[list[StoredMessage], str | None]] = {}
        for request, answer in self.asker.ask(request for _, request in asked):
            messages: list[StoredMessage] = []
            reason = ""
            status = answer if isinstance(answer, Status) else rq.status(request, answer)
            if isinstance(answer, Frame) and status is Status.ANSWERED:
                try:
                    messages = stored_messages(answer.body)
                except ValueError as error:
                    status, reason = Status.FAILED, str(error)
            elif isinstance(answer, Frame) and status is not Status.ABSENT:
                reason = self.reason(request, answer)
            self.counts.setdefault(request.code, Counts(request.name)).add(request, status, reason)
            is_known = status in (Status.ANSWERED, Status.ABSENT)
            found[of_request[id(request)]] = messages, None if is_known else str(status)
        return found


def _of(wanted: WantedMessage, messages: Iterable[StoredMessage]) -> tuple[StoredMessage, ...]:
    """The messages with the id: the broker finds keys by a hash. The one that was stored first is first."""
    found = [message for message in messages if message.unique_key == wanted.msg_id]
    return tuple(sorted(found, key=lambda message: message.physical_offset))
