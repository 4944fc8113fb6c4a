"""What a collection, and the current rows of the lake, say of brokers, topics and groups: what a message is judged with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from spark_jobs.broker_facts.collect import Collection
from spark_jobs.broker_facts.fact_tables import Row
from spark_jobs.broker_facts.message_state import GroupFacts
from spark_jobs.broker_facts.parse import Subscription
from spark_jobs.broker_facts.requests import (
    GET_ALL_CONSUMER_OFFSET,
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    GET_CONSUMER_CONNECTION_LIST,
    V5_0_0,
    Status,
)
from spark_jobs.lake.tables import BROKERS, CONSUMERS, GROUP_OFFSETS, TOPICS

_UNKNOWN = (Status.REFUSED, Status.UNSUPPORTED, Status.TIMED_OUT, Status.FAILED)


def without_prefixes(name: str) -> str:
    """The name of a topic or group as in the marts: without `%RETRY%`, `%DLQ%` and namespace."""
    return name.rpartition("%")[2]


@dataclass(frozen=True)
class KnownFacts:
    """The answers of one collection.

    Attributes:
        collection: its offsets, consumers, topics and brokers.
        subscriptions: current rows of `subscriptions`: of an offline group its last ones.
        message_models: (broker, group) to the last known model.
    """

    collection: Collection
    subscriptions: Iterable[Row]
    message_models: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @cached_property
    def _offsets(self) -> dict[tuple[str, str], dict[tuple[str, int], int]]:
        """(broker, group) to (topic, queue id) to offset."""
        found: dict[tuple[str, str], dict[tuple[str, int], int]] = {}
        for row in self.collection.found[GROUP_OFFSETS.name].rows:
            of_group = found.setdefault((row["broker"], row["group_name"]), {})
            for queue in row["queues"]:
                of_group[row["topic"], queue["queue_id"]] = queue["consumer_offset"]
        return found

    @cached_property
    def _online(self) -> dict[tuple[str, str], bool]:
        rows = self.collection.found[CONSUMERS.name].rows
        return {(row["broker"], row["group_name"]): row["online"] for row in rows}

    @cached_property
    def _subscriptions(self) -> dict[tuple[str, str, str], Subscription]:
        return {
            (row["broker"], row["group_name"], row["topic"]): Subscription(
                row["topic"],
                row["expression_type"],
                row["expression"],
                tuple(row["tags"]),
                row["class_filter"],
            )
            for row in self.subscriptions
        }

    @cached_property
    def _observations(self) -> dict[str, Row]:
        return {row["broker"]: row for row in self.collection.observations}

    @cached_property
    def _topics(self) -> dict[str, dict[str, str]]:
        """Broker to topic to kind; without brokers whose topics are unknown."""
        found: dict[str, dict[str, str]] = {}
        for row in self.collection.found[TOPICS.name].rows:
            found.setdefault(row["broker"], {})[row["topic"]] = row["kind"]
        return found

    @cached_property
    def _brokers(self) -> dict[str, Row]:
        return {row["broker"]: row for row in self.collection.found[BROKERS.name].rows}

    def topics_named(self, broker: str, topic: str) -> list[str]:
        """The topics of a broker that have this name without their namespace; the name itself if the topics are unknown."""
        if broker not in self._topics:
            return [topic]
        kinds = self._topics[broker]
        return [each for each, kind in kinds.items() if kind == "normal" and without_prefixes(each) == topic]

    def groups_of(self, broker: str, topic: str) -> list[str]:
        """The groups that subscribe to a topic of a broker, or have committed offsets in it, by name."""
        subscribed = {group for where, group, of in self._subscriptions if (where, of) == (broker, topic)}
        read = {
            group
            for (where, group), offsets in self._offsets.items()
            if where == broker and any(of == topic for of, _ in offsets)
        }
        return sorted(subscribed | read)

    def group(self, broker: str, name: str, topic: str) -> GroupFacts:
        """What a broker says of a group, by its whole name, and of a topic.

        Consumers of a group that do not subscribe to the topic do not read it: for this topic the group is offline.
        """
        subscription = self._subscriptions.get((broker, name, topic))
        online = self._online.get((broker, name))
        if online is None and self._is_unknown_to(broker, name):
            online = False
        return GroupFacts(
            online=online if online is None else online and subscription is not None,
            message_model=self.message_models.get((broker, name)),
            subscription=subscription,
            are_offsets_known=bool(self._answered(broker, GET_ALL_CONSUMER_OFFSET)),
            offsets=self._offsets.get((broker, name), {}),
        )

    def unknown_reason(self, broker: str, group: GroupFacts) -> Status | None:
        """Why the offsets of a group, or whether it is connected, are unknown; None if both are known."""
        if not group.are_offsets_known:
            return self._reason(broker, GET_ALL_CONSUMER_OFFSET)
        return self._reason(broker, GET_CONSUMER_CONNECTION_LIST) if group.online is None else None

    def has_topic(self, broker: str, topic: str) -> bool:
        """Whether a broker has a topic; true if its topics are unknown."""
        return topic in self._topics.get(broker, {}) or broker not in self._topics

    def commit_log_min_offset(self, broker: str) -> int:
        """The first physical offset that the broker still has; 0 if unknown."""
        return (self._observations.get(broker) or {}).get("commit_log_min_offset") or 0

    def delay_levels(self, broker: str) -> str | None:
        return (self._brokers.get(broker) or {}).get("delay_levels")

    def writes_region(self, broker: str) -> bool:
        """Whether the broker writes its region into every message that is not of a batch; false if that is unknown."""
        return ((self._observations.get(broker) or {}).get("version") or 0) >= V5_0_0

    def is_indexed(self, broker: str) -> bool:
        """Whether the broker can find messages by key; if its settings are unknown, it is taken to."""
        return (self._brokers.get(broker) or {}).get("message_index_enabled") is not False

    def _is_unknown_to(self, broker: str, group: str) -> bool:
        """Whether the broker has answered that it does not know the group: so no consumer of it is connected there."""
        connections = self._request(broker, GET_CONSUMER_CONNECTION_LIST)
        return (
            bool(self._answered(broker, GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
            and bool(self._answered(broker, GET_ALL_CONSUMER_OFFSET))
            and group not in connections.get("unanswered", ())
        )

    def _request(self, broker: str, code: int) -> Row:
        requests = (self._observations.get(broker) or {}).get("requests") or []
        return next((each for each in requests if each["code"] == code), {})

    def _answered(self, broker: str, code: int) -> int:
        return int(self._request(broker, code).get(Status.ANSWERED, 0))

    def _reason(self, broker: str, code: int) -> Status:
        request = self._request(broker, code)
        return next((status for status in _UNKNOWN if request.get(status)), Status.FAILED)
