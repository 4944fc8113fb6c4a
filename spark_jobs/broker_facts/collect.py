"""Ask the brokers of a cluster for their facts; reads no table and writes nothing.

A broker that is away, is too old for a request, or refuses it, costs only its own facts: the observation says which
requests were answered. Only masters are asked: the offsets of a slave may be behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from collections.abc import Collection as Names
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from spark_jobs.broker_facts import parse
from spark_jobs.broker_facts import requests as rq
from spark_jobs.broker_facts.answers import Answers
from spark_jobs.broker_facts.asking import BrokerAsker
from spark_jobs.broker_facts.changes import Found
from spark_jobs.broker_facts.fact_tables import FACT_TABLES, FactTable, Key, Row
from spark_jobs.broker_facts.requests import OF_BROKER, RUNTIME_INFO, Request, Status
from spark_jobs.rocketmq.cluster_connections import MASTER_ID, ClusterConnections
from spark_jobs.rocketmq.connection import Connection
from spark_jobs.rocketmq.frames import Frame
from spark_jobs.rocketmq.requests import NO_PERMISSION
from spark_jobs.rocketmq.route import Broker
from spark_jobs.settings import BrokerFacts

BROKERS_AT_ONCE = 4


@dataclass(frozen=True)
class Collection:
    """The facts of a cluster at a time.

    Attributes:
        cluster: the cluster's name in the settings.
        observed_at: when the collection started, UTC.
        observations: a row of `observations` per broker, without watermark and run id.
        found: table name to what was seen.
        problems: what is unknown and why, a line per broker; without secrets.
    """

    cluster: str
    observed_at: datetime
    observations: list[Row]
    found: dict[str, Found]
    problems: list[str]


def collect(
    connections: ClusterConnections,
    limits: BrokerFacts,
    observed_at: datetime,
    is_erased: Callable[[str], bool] = lambda group: False,
    is_removed: Callable[[str], bool] = lambda broker: False,
) -> Collection:
    """Ask all brokers that are registered at the nameservers.

    Args:
        connections: to the cluster.
        limits: of requests in flight and time.
        observed_at: now, UTC.
        is_erased: whether nothing may be stored of a group; such groups are not asked for, either.
        is_removed: whether a broker that is not registered will not come back: its facts end.

    Raises:
        RocketMQError: no nameserver answers, so there are no brokers to ask.
    """
    registered = connections.registered_brokers()
    deadline = time.monotonic() + limits.deadline_seconds
    ask = partial(_ask_broker, connections, limits=limits, deadline=deadline, is_erased=is_erased)
    with ThreadPoolExecutor(BROKERS_AT_ONCE) as pool:
        answers = list(pool.map(ask, registered))
    return Collection(
        cluster=connections.cluster,
        observed_at=observed_at,
        observations=[_observation(each, observed_at) for each in answers],
        found={facts.table.name: _found(facts, answers, is_removed) for facts in FACT_TABLES},
        problems=[
            f"cluster {connections.cluster}, broker {each.broker}: {each.problem}"
            for each in answers
            if each.problem
        ],
    )


def _ask_broker(
    connections: ClusterConnections,
    broker: Broker,
    limits: BrokerFacts,
    deadline: float,
    is_erased: Callable[[str], bool],
) -> Answers:
    """Ask one broker: its own state, the lists, then each topic and group."""
    found = Answers(broker.name)
    master = dict(broker.addresses).get(MASTER_ID)
    if master is None:
        found.problem = "its master is not registered"
        return found

    def connect() -> Connection:
        return connections.connect(master)

    own = {broker.name, broker.cluster}
    with BrokerAsker(connect, limits.requests_in_flight, deadline) as asker:
        _take(found, asker, [RUNTIME_INFO], own, is_erased)
        if found.version is None:
            found.problem = asker.error
            return found
        for each in OF_BROKER:
            if found.version < each.since:
                found.count(each, Status.UNSUPPORTED, "its release does not have it")
        supported = [each for each in OF_BROKER if found.version >= each.since]
        _take(found, asker, supported, own, is_erased)
        _take(found, asker, map(rq.without_pages, found.partial), own, is_erased)
        _take(found, asker, _of_each(found), own, is_erased)
        unknown = [text for counts in found.requests.values() if (text := str(counts))]
        found.problem = "; ".join([*unknown, *filter(None, [asker.error])])
    return found


def _of_each(found: Answers) -> list[Request]:
    """The requests for each topic and group.

    They start at a different one each time, so that a deadline does not always omit the same ones.
    """
    topics = [each.topic for each in (found.topics or {}).values() if each.kind != "system"]
    groups = sorted({*(found.groups or {}), *(group for group, _ in found.offsets or {})})
    asked = [*map(rq.topic_stats, topics), *map(rq.consumer_connection, groups)]
    first = int(time.time()) % len(asked) if asked else 0
    return asked[first:] + asked[:first]


def _take(
    found: Answers,
    asker: BrokerAsker,
    asked: Iterable[Request],
    own: Names[str],
    is_erased: Callable[[str], bool],
) -> None:
    """Ask, keep what was answered, and count what became of each request."""
    for request, answer in asker.ask(asked):
        if isinstance(answer, Status):
            found.count(request, answer)
            continue
        found.version = answer.version
        status, why = rq.status(request, answer), ""
        if status is Status.ANSWERED:
            try:
                _keep(found, request, answer, own, is_erased)
            except ValueError as error:
                status, why = Status.FAILED, str(error)
        elif status is Status.ABSENT and request.code == rq.GET_CONSUMER_CONNECTION_LIST:
            found.consumers[request.entity] = None
        elif status in (Status.REFUSED, Status.FAILED):
            why = reason(request, answer)
        found.count(request, status, why)


def reason(request: Request, answer: Frame) -> str:
    """The code and the broker's remark, and the permission that may be missing."""
    remark = " ".join(answer.remark.split(", org.apache.", 1)[0].split())[:200]
    needs = f"; it needs {request.permission}" if request.permission and answer.code == NO_PERMISSION else ""
    return f"code {answer.code}: {remark}{needs}"


def _keep(
    found: Answers, request: Request, answer: Frame, own: Names[str], is_erased: Callable[[str], bool]
) -> None:
    """Parse an answer; what belongs to an erased group is left out."""
    body = answer.body
    if request.code == rq.GET_BROKER_RUNTIME_INFO:
        found.info = parse.runtime_info(body)
    elif request.code == rq.GET_BROKER_CONFIG:
        found.config = parse.broker_config(body)
    elif request.code == rq.GET_ALL_TOPIC_CONFIG:
        topics = parse.topics(body, own)
        if rq.is_partial(request, answer, len(topics)):
            found.partial.append(request)
        else:
            found.topics = {
                each.topic: each for each in topics if not (each.of_group and is_erased(each.of_group))
            }
    elif request.code == rq.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
        groups = parse.groups(body)
        if rq.is_partial(request, answer, len(groups)):
            found.partial.append(request)
        else:
            found.groups = {each.group_name: each for each in groups if not is_erased(each.group_name)}
    elif request.code == rq.GET_ALL_CONSUMER_OFFSET:
        offsets, found.pull_offsets = parse.consumer_offsets(body)
        erased = {group for group in {group for group, _ in offsets} if is_erased(group)}
        found.offsets = {key: queues for key, queues in offsets.items() if key[0] not in erased}
    elif request.code == rq.GET_ALL_PRODUCER_INFO:
        found.producers = [
            each for each in parse.producers(body) if not is_erased(each.trace_of or each.group_name)
        ]
    elif request.code == rq.GET_TOPIC_STATS_INFO:
        found.queues[request.entity] = parse.topic_queues(body)
    else:
        found.consumers[request.entity] = parse.consumer_connection(body)


def _observation(found: Answers, observed_at: datetime) -> Row:
    """A row of `observations`, without cluster, watermark and run id."""
    info = found.info
    return {
        "broker": found.broker,
        "observed_at": observed_at,
        "reached": found.version is not None,
        "version": found.version,
        "requests": [
            {
                "code": code,
                "name": each.name,
                **{str(status): count for status, count in each.counts.items()},
                "unanswered": sorted(each.unanswered),
            }
            for code, each in sorted(found.requests.items())
        ],
        "commit_log_min_offset": info and info.commit_log_min_offset,
        "commit_log_max_offset": info and info.commit_log_max_offset,
        "earliest_message_at": info and info.earliest_message_at,
        "delay_levels": [
            dict(zip(("level", "delivered_offset", "max_offset"), each, strict=True))
            for each in info.delay_levels
        ]
        if info
        else None,
        "timer_behind_ms": info and info.timer_behind_ms,
    }


def _found(facts: FactTable, answers: list[Answers], is_removed: Callable[[str], bool]) -> Found:
    """The rows of all brokers, and which keys are known to be gone. Every registered broker has an entry in `answers`."""
    by_broker = {each.broker: each for each in answers}

    def is_gone(key: Key) -> bool:
        of_broker = by_broker.get(key[0])
        if of_broker is None:
            return facts.gone_if_unregistered or is_removed(key[0])
        return facts.is_gone(of_broker, key)

    return Found([{"broker": each.broker, **row} for each in answers for row in facts.rows(each)], is_gone)
