"""The state of the queues on the brokers: queried once for all checks, within a bounded time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Thread

from spark_jobs.ingest.source_options import datasource_options
from spark_jobs.lake.offsets import Position, Positions, Queue
from spark_jobs.rocketmq import route
from spark_jobs.rocketmq.client import Bounds
from spark_jobs.rocketmq.errors import (
    AccessDeniedError,
    AuthenticationError,
    ConnectionLostError,
    PermissionDeniedError,
    RequestTimeoutError,
    RocketMQError,
    TopicNotFoundError,
)
from spark_jobs.rocketmq.options import Options, Reader
from spark_jobs.settings import Cluster, Settings

# A queue that was not read yet; it will be read from its min offset.
UNREAD = Position(next=0, unanswered=True)
# Timeout of a request, and for the answers of all clusters.
TIMEOUT_SECONDS = 5
DEADLINE_SECONDS = 30


@dataclass(frozen=True)
class QueueState:
    """The state of a queue whose broker answered.

    Attributes:
        position: the committed offset.
        bounds: min and max offset.
        unread: number of messages that the broker has and raw has not.
        stored_at: store time of the first unread message, ms; None if there is none or the broker did not return it.
    """

    position: Position
    bounds: Bounds
    unread: int
    stored_at: int | None = None

    @property
    def first_unread(self) -> int:
        """The offset of the first unread message: the committed offset, or the min offset, or 0 of a recreated queue."""
        return self.bounds.max_offset - self.unread


@dataclass(frozen=True)
class ClusterAnswers:
    """A cluster: the queues whose brokers answered, the known queues whose brokers did not, and the reasons."""

    seen: dict[Queue, QueueState] = field(default_factory=dict)
    unseen: list[Queue] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def query(
    settings: Settings, committed: Positions, deadline_seconds: float = DEADLINE_SECONDS
) -> dict[str, ClusterAnswers]:
    """Query every queue of every cluster, the clusters in parallel; returns cluster name to answers.

    Each request is sent once, and none to a broker that did not answer before: the next run tries again.

    Args:
        settings: the clusters.
        committed: offsets of raw; queues of these that have left their route are failures.
        deadline_seconds: what has not answered by then is a failure.
    """
    end = time.monotonic() + deadline_seconds
    answers = {cluster.name: ClusterAnswers() for cluster in settings.clusters}
    # Daemon threads, unlike those of a pool, do not keep the process alive until a dead address times out.
    threads = [
        Thread(target=_query, args=(settings, cluster, committed, answers[cluster.name], end), daemon=True)
        for cluster in settings.clusters
    ]
    for thread in threads:
        thread.start()
    for cluster, thread in zip(settings.clusters, threads, strict=True):
        thread.join(max(0.0, end - time.monotonic()))
        found = answers[cluster.name]
        if thread.is_alive():
            late = f"not all answers arrived within {deadline_seconds:.0f} s"
            advice = f"check that {', '.join(cluster.namesrv)} and their brokers run and can be reached from this machine"
            # A copy: the thread may still write to its own.
            answers[cluster.name] = found = ClusterAnswers(
                dict(found.seen), failures=[*found.failures, f"{late}: {advice}"]
            )
        known = [q for q, p in committed.items() if q.cluster == cluster.name and not p.retired]
        found.unseen.extend(queue for queue in known if queue not in found.seen)
    return answers


def _query(
    settings: Settings, cluster: Cluster, committed: Positions, answers: ClusterAnswers, end: float
) -> None:
    try:
        given = datasource_options(cluster, settings.extract)
        given |= {"topic": cluster.topics[0], "timeoutMs": str(1000 * TIMEOUT_SECONDS)}
        with Options.parse(given).open(attempts=1) as client:
            _query_queues(client, cluster, committed, answers, end)
    except ValueError as error:  # a secret or a TLS file is missing
        answers.failures.append(str(error))
    except Exception as error:  # it must not hide the answers of the other clusters
        answers.failures.append(f"{type(error).__name__}: {error}")


def _query_queues(
    client: Reader, cluster: Cluster, committed: Positions, answers: ClusterAnswers, end: float
) -> None:
    given_up: set[tuple[str, str]] = set()  # topic and broker
    for name, queue in _routed(client, cluster, committed, answers):
        if {(name.trace_topic, name.broker), ("", name.broker)} & given_up:
            continue
        if time.monotonic() > end:
            answers.failures.append(f"{name} and the queues after it were not queried in time")
            return
        position = committed.get(name, UNREAD)
        try:
            bounds = client.bounds(queue)
            answers.seen[name] = state = QueueState(position, bounds, len(bounds.unread(position.next)))
            if state.unread and (first := client.message_at(queue, state.first_unread)):
                answers.seen[name] = replace(state, stored_at=first.store_time)
        except RocketMQError as error:
            answers.failures.append(_explain(f"broker {name.broker}", error))
            if isinstance(error, ConnectionLostError):
                given_up.add(("", name.broker))
            elif isinstance(error, AccessDeniedError):
                given_up.add((name.trace_topic, name.broker))


def _explain(who: str, error: RocketMQError) -> str:
    """The problem in a few words, then the error."""
    words = {
        RequestTimeoutError: "does not answer in time",
        ConnectionLostError: "is down or cannot be reached",
        AuthenticationError: "does not accept the credentials",
        PermissionDeniedError: "does not permit reading",
    }
    found = next((text for kind, text in words.items() if isinstance(error, kind)), None)
    return f"{who} {found}: {error}" if found else str(error)


def _routed(
    client: Reader, cluster: Cluster, committed: Positions, answers: ClusterAnswers
) -> Iterator[tuple[Queue, route.MessageQueue]]:
    for topic in cluster.topics:
        found: list[route.MessageQueue] = []
        why: list[str] = []
        try:
            found = client.queues(topic)
        except TopicNotFoundError as error:
            why = [str(error)]
        except RocketMQError as error:
            if isinstance(error, ConnectionLostError):  # no nameserver answers
                answers.failures.append(str(error))
                return
            answers.failures.append(_explain("the nameserver", error))
            continue
        answers.failures.extend(_missing(client, cluster, topic, committed, found) or why)
        for each in found:
            yield Queue(cluster.name, topic, each.broker, each.queue_id), each


def _missing(
    client: Reader, cluster: Cluster, topic: str, committed: Positions, found: list[route.MessageQueue]
) -> list[str]:
    """Brokers that the topic was read from and that have left its route: a nameserver removes brokers that are down."""
    known = {
        q.broker
        for q, p in committed.items()
        if (q.cluster, q.trace_topic) == (cluster.name, topic) and not p.retired
    }
    lost = sorted(known - {each.broker for each in found})
    if not lost:
        return []
    try:
        registered = {broker.name for broker in client.registered_brokers()}
    except RocketMQError as error:
        return [
            f"brokers {', '.join(lost)} have left the route of topic {topic}, and the reason is unknown: {error}"
        ]
    return [
        f"topic {topic} was deleted on broker {name}: the broker runs and has it no more. If that was not meant, create it "
        "again; else take it out of the settings"
        if name in registered
        else f"broker {name} is down: it is no longer registered at the nameserver, and topic {topic} was read from it. Start "
        f"it. If it was taken out for good, `make ingest-retire QUEUE={cluster.name}/{topic}/{name}` retires its queues"
        for name in lost
    ]
