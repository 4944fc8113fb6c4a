"""Look up suspected messages at the brokers and judge them for their groups; reads no table and writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from spark_jobs.broker_facts.asking import BrokerAsker
from spark_jobs.broker_facts.collect import BROKERS_AT_ONCE, reason
from spark_jobs.broker_facts.fact_tables import Row
from spark_jobs.broker_facts.known_facts import KnownFacts, without_prefixes
from spark_jobs.broker_facts.message_lookup import LookedUp, MessageLookup, WantedMessage
from spark_jobs.broker_facts.message_state import NO_COPIES, Copies, state_of
from spark_jobs.broker_facts.stored_messages import due_at
from spark_jobs.broker_facts.suspects import Suspect
from spark_jobs.rocketmq.cluster_connections import ClusterConnections
from spark_jobs.rocketmq.offset_id import decode_offset_id
from spark_jobs.rocketmq.route import Broker
from spark_jobs.settings import BrokerFacts

_GROUPS = 20  # of a message without an expected group, by name
NOT_REGISTERED = "not_registered"


@dataclass(frozen=True)
class Checked:
    """Rows of `message_checks` without `cluster` and `run_id`, and what is unknown and why, a line per broker."""

    rows: list[Row]
    problems: list[str]


@dataclass(frozen=True)
class _OfBroker:
    rows: dict[Suspect, list[Row]]
    found: dict[Suspect, LookedUp]
    problem: str


def check_messages(
    connections: ClusterConnections,
    facts: KnownFacts,
    suspects: Iterable[Suspect],
    offset_ids: Mapping[tuple[str, str], str],
    limits: BrokerFacts,
    is_erased: Callable[[str], bool] = lambda group: False,
) -> Checked:
    """Look up each suspect at the broker that stored it, or at all brokers if that one is unknown.

    Args:
        connections: to the cluster.
        facts: of the collection that the answers are judged with.
        suspects: the messages and groups.
        offset_ids: (topic, message id) to the broker's id.
        limits: of requests in flight and time.
        is_erased: whether nothing may be stored of a group.

    Raises:
        RocketMQError: no nameserver answers.
    """
    registered = {broker.name: broker for broker in connections.registered_brokers()}
    home = {address: broker.name for broker in registered.values() for _, address in broker.addresses}
    wanted: dict[Suspect, WantedMessage] = {}
    addresses: dict[Suspect, str | None] = {}
    known_home: dict[Suspect, str | None] = {}
    for each in suspects:
        offset_id = decode_offset_id(offset_ids.get((each.topic, each.msg_id), ""))
        addresses[each] = address = offset_id.address if offset_id else each.store_host
        known_home[each] = home.get(address or "")
        offset = offset_id.physical_offset if offset_id and known_home[each] else None
        wanted[each] = WantedMessage(each.topic, each.msg_id, each.published_at, offset)
    of_broker = {
        name: {each: message for each, message in wanted.items() if known_home[each] in (None, name)}
        for name in registered
    }
    deadline = time.monotonic() + limits.deadline_seconds
    ask = partial(_ask, connections, facts=facts, limits=limits, deadline=deadline, is_erased=is_erased)
    asked = [(registered[name], messages) for name, messages in of_broker.items() if messages]
    with ThreadPoolExecutor(BROKERS_AT_ONCE) as pool:
        answers = list(pool.map(lambda pair: ask(*pair), asked))
    rows: list[Row] = []
    for each in wanted:
        having = [answer for answer in answers if each in answer.found]
        best = min(having, key=lambda answer: _rank(answer.found[each]), default=None)
        if best is None or (best.found[each].message is None and known_home[each] is None):
            unknown = NOT_REGISTERED if best is None or addresses[each] else best.found[each].unknown
            rows.append(_row(each, None, each.group, LookedUp(unknown=unknown), facts))
        else:
            rows += best.rows[each]
    problems = [f"cluster {connections.cluster}, {answer.problem}" for answer in answers if answer.problem]
    return Checked(rows, problems)


def _rank(found: LookedUp) -> int:
    """The broker that has the message comes first, then one whose answer is unknown."""
    return 0 if found.delivered else 1 if found.held else 2 if found.unknown else 3


def _ask(
    connections: ClusterConnections,
    broker: Broker,
    wanted: dict[Suspect, WantedMessage],
    facts: KnownFacts,
    limits: BrokerFacts,
    deadline: float,
    is_erased: Callable[[str], bool],
) -> _OfBroker:
    """Ask one broker, its master or else a slave, which has the same physical offsets."""
    address = broker.addresses[0][1]
    with BrokerAsker(lambda: connections.connect(address), limits.requests_in_flight, deadline) as asker:
        lookup = MessageLookup(asker, broker.name, facts, reason)
        found = lookup.messages(dict.fromkeys(wanted.values()))
        groups = {
            each: _groups(facts, broker.name, each, found[message], is_erased)
            for each, message in wanted.items()
        }
        passed = [
            (message, group)
            for each, message in wanted.items()
            if (delivered := found[message].delivered)
            for group in groups[each]
            if group and facts.group(broker.name, group, delivered.topic).has_passed(delivered)
        ]
        copies = lookup.copies(passed)
        rows = {
            each: [
                _row(
                    each,
                    broker.name,
                    group,
                    found[message],
                    facts,
                    *copies.get((message, group or ""), (NO_COPIES, None)),
                )
                for group in groups[each]
            ]
            for each, message in wanted.items()
        }
        unknown = [text for counts in lookup.counts.values() if (text := str(counts))]
        texts = [*unknown, *filter(None, [asker.error])]
    problem = f"broker {broker.name}, suspected messages: {'; '.join(texts)}" if texts else ""
    return _OfBroker(rows, {each: found[message] for each, message in wanted.items()}, problem)


def _groups(
    facts: KnownFacts, broker: str, suspect: Suspect, found: LookedUp, is_erased: Callable[[str], bool]
) -> list[str | None]:
    """The whole names of the groups to judge: the expected one, in the topic's namespace, or those that read the topic."""
    topic = found.message.real_topic if found.message else suspect.topic
    if suspect.group is not None:
        return [topic.removesuffix(suspect.topic) + suspect.group]
    reading = [group for group in facts.groups_of(broker, topic) if not is_erased(group)]
    return [*reading[:_GROUPS]] or [None]


def _row(
    suspect: Suspect,
    broker: str | None,
    group: str | None,
    found: LookedUp,
    facts: KnownFacts,
    copies: Copies = NO_COPIES,
    unknown_copies: str | None = None,
) -> Row:
    message, delivered = found.message, found.delivered
    state = of_group = None
    unknown = found.unknown if delivered is None else unknown_copies
    if group is not None and broker is not None and message is not None:
        of_group = facts.group(broker, group, message.real_topic)
        is_held = None if delivered is None and found.unknown else delivered is None
        state = state_of(message, is_held, of_group, copies, found.recall is not None)
        unknown = unknown or facts.unknown_reason(broker, of_group)
    return {
        "broker": broker,
        "topic": suspect.topic,
        "msg_id": suspect.msg_id,
        "consumer_group": group if group is None else without_prefixes(group),
        "checked_at": facts.collection.observed_at,
        "is_stored": None if message is None and found.unknown else message is not None,
        "held_as": found.held.held_as if found.held and delivered is None and not found.unknown else None,
        "tags": message and message.tags,
        "is_of_batch": _is_of_batch(found, broker, facts),
        "due_at": _due_at(found, broker, facts),
        "queue_id": delivered and delivered.queue_id,
        "queue_offset": delivered and delivered.queue_offset,
        "stored_at": delivered and delivered.stored_at,
        "state": state or "unknown",
        "consumer_offset": of_group and delivered and of_group.offset_of(delivered),
        "unknown_reason": unknown,
    }


def _is_of_batch(found: LookedUp, broker: str | None, facts: KnownFacts) -> bool | None:
    """Whether the message was sent in a batch: a broker of 5.x writes its region into every other message."""
    if found.delivered is None or broker is None or not facts.writes_region(broker):
        return None
    return found.delivered.region is None


def _due_at(found: LookedUp, broker: str | None, facts: KnownFacts) -> datetime | None:
    levels = facts.delay_levels(broker) if broker else None
    times = [due_at(each, levels) for each in (found.held, found.delivered) if each]
    return next((time for time in times if time), None)
