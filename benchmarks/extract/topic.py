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

    @property
    def records(self) -> int:
        """How many trace records its messages have."""
        return self.messages * RECORDS + self.messages // LONG_EVERY * (LONG_RECORDS - RECORDS)

    def __str__(self) -> str:
        return (
            f"{self.messages:,} messages in one queue, {self.body_bytes / 1e6:.1f} MB of bodies "
            f"({self.body_bytes / self.messages:.0f} bytes each), of {RECORDS} trace records each; every {LONG_EVERY}th "
            f"has {LONG_RECORDS}, which exceeds 4 KB, so that the Java client has compressed it (zlib, its default)"
        )


def write(
    namesrv: str, broker: str, folder: Path, name: str = "bench-extract", messages: int = MESSAGES
) -> Topic:
    """Write the topic; the folder has the writer's files.

    Raises:
        ChildFailed: the writer has failed, or takes too long.
    """
    written, size = _write(namesrv, broker, folder, name, messages)
    return Topic(namesrv, name, broker, written, size)


def write_given(namesrv: str, broker: str, folder: Path, name: str, bodies: Path, messages: int) -> None:
    """Write the first lines of a file as the bodies of a topic.

    Raises:
        ChildFailed: the writer has failed, or takes too long.
    """
    _write(namesrv, broker, folder, name, messages, str(bodies))


def _write(
    namesrv: str, broker: str, folder: Path, name: str, messages: int, *bodies: str
) -> tuple[int, int]:
    numbers = map(str, (messages, RECORDS, LONG_RECORDS, LONG_EVERY))
    command = java_command("Write.java", folder, namesrv, name, broker, *numbers, *bodies)
    with Child("writer", command, folder) as writer:
        written, size = map(int, writer.done())
    return written, size
