"""The topic that is read: written by the official Java client, bodies as its trace dispatcher makes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.extract.children import Child
from benchmarks.extract.java import java_command

MESSAGES = 100_000
RECORDS, LONG_RECORDS, LONG_EVERY = 8, 32, 50


@dataclass(frozen=True, slots=True)
class Topic:
    """One queue, and what is in it.

    Attributes:
        namesrv: the nameserver's address.
        name: the topic's name.
        broker: the broker's name.
        messages: how many messages the queue has, from offset 0 on.
        body_bytes: bytes of their bodies, inflated.
    """

    namesrv: str
    name: str
    broker: str
    messages: int
    body_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.messages:,} messages in one queue, {self.body_bytes / 1e6:.1f} MB of bodies "
            f"({self.body_bytes / self.messages:.0f} bytes each), of {RECORDS} trace records each; every {LONG_EVERY}th "
            f"has {LONG_RECORDS}, which exceeds 4 KB, so that the Java client has compressed it (zlib, its default)"
        )


def write(namesrv: str, broker: str, folder: Path) -> Topic:
    """Write the topic.

    Raises:
        ChildFailed: the writer has failed, or takes too long.
    """
    name = "bench-extract"
    numbers = map(str, (MESSAGES, RECORDS, LONG_RECORDS, LONG_EVERY))
    command = java_command("Write.java", folder, namesrv, name, broker, *numbers)
    with Child("writer", command, folder) as writer:
        messages, size = map(int, writer.done())
    return Topic(namesrv, name, broker, messages, size)
