"""How fast each client reads the same queue, and whether the messages are the same."""

from __future__ import annotations

import statistics
import time
from collections.abc import Collection, Mapping

from benchmarks.extract import ours
from benchmarks.extract.machine import watched
from benchmarks.extract.topic import Topic
from spark_jobs.rocketmq.message import Message
from spark_jobs.rocketmq.options import Reader
from spark_jobs.rocketmq.route import MessageQueue

ROUNDS = 5


class WrongRead(RuntimeError):
    """A client did not read what is in the topic."""


def race(
    readers: Mapping[str, Reader], topic: Topic, servers: Collection[int]
) -> tuple[dict[str, float], float]:
    """The median of the seconds of each client for the whole topic, as record batches, and what others used of the machine.

    Args:
        readers: by the client's name; each reads once before the rounds.
        topic: what was written.
        servers: pids of broker and nameserver, which belong to what is measured.

    Raises:
        WrongRead: the numbers of messages or body bytes are not those that were written.
    """
    queues = {name: queue_of(reader, topic.name) for name, reader in readers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    busiest = 0.0
    for turn in range(ROUNDS + 1):
        for name in sorted(readers, reverse=bool(turn % 2)):
            reader = readers[name]
            library = getattr(reader, "library_pid", None)
            with watched([*servers, *([library] if library else [])]) as load:
                begin = time.perf_counter()
                read = ours.read(reader, queues[name], 0, topic.messages)
                seconds[name].append(time.perf_counter() - begin)
            if read != (topic.messages, topic.body_bytes):
                raise WrongRead(f"{name} read {read} messages and bytes of {topic}")
            busiest = max(busiest, load.others)
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}, busiest


def queue_of(reader: Reader, topic: str) -> MessageQueue:
    """The topic's only queue."""
    (queue,) = reader.queues(topic)
    return queue


def messages(reader: Reader, topic: str, count: int) -> list[Message]:
    """The first messages of the topic's only queue."""
    return [message for batch in reader.read(queue_of(reader, topic), 0, count) for message in batch]


def are_equal(one: list[Message], other: list[Message]) -> bool:
    """Whether every field is the same; the library sorts the properties by name."""

    def comparable(message: Message) -> tuple[object, ...]:
        return (*message._replace(properties=None), dict(message.properties))  # type: ignore[arg-type]

    return len(one) == len(other) and all(map(_same, map(comparable, one), map(comparable, other)))


def _same(one: object, other: object) -> bool:
    return one == other
