"""Rounds: each contestant reads the same range once, one after the other, in an order that rotates."""

from __future__ import annotations

import statistics
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rich.console import Console

from benchmarks.extract.contestants import WARM_UP, Contestant
from benchmarks.extract.machine import watched
from benchmarks.extract.topic import Topic

ROUNDS = 5
# Reads beside which others used more than this of the machine are measured again, as long as there is time.
MOST_BY_OTHERS = 0.1
LONGEST_SECONDS = 200.0


class WrongRead(RuntimeError):
    """A contestant did not read what is in the topic."""


@dataclass(frozen=True, slots=True)
class Read:
    """One measured read: the seconds it took, and the share of the machine that others used meanwhile."""

    seconds: float
    others: float


class Race:
    """Measures the contestants on one topic."""

    def __init__(
        self, contestants: Mapping[str, Contestant], servers: Collection[int], topic: Topic, console: Console
    ) -> None:
        """`servers` are the broker's and nameserver's process ids, which belong to what is measured."""
        self._contestants = contestants
        self._topic = topic
        self._console = console
        self._pids = [
            *servers,
            *(child.pid for contestant in contestants.values() for child in contestant.children),
        ]

    def warm_up(self) -> None:
        """Let each contestant read the whole range as often as it needs to be at its best."""
        for name, contestant in self._contestants.items():
            seconds = [self._read(contestant).seconds for _ in range(WARM_UP[name])]
            self._console.print(f"warmed up {name}: " + ", ".join(f"{each:.2f}" for each in seconds) + " s")

    def run(self) -> dict[str, list[Read]]:
        """The reads of each contestant: the quiet ones where there are enough of them, else all.

        Raises:
            WrongRead: the numbers of messages or body bytes are not those that were written.
        """
        names = list(self._contestants)
        reads: dict[str, list[Read]] = {name: [] for name in names}
        begin = time.monotonic()
        turn = 0
        while turn < ROUNDS or (
            time.monotonic() - begin < LONGEST_SECONDS and min(map(_quiet_count, reads.values())) < ROUNDS
        ):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                reads[name].append(self._read(self._contestants[name]))
            turn += 1
            last = ", ".join(f"{name} {reads[name][-1].seconds:.2f}" for name in names)
            busiest = max(reads[name][-1].others for name in names)
            self._console.print(
                f"round {turn}: {last} s; others used up to {busiest:.0%} of the machine",
                soft_wrap=True,
            )
        if min(map(_quiet_count, reads.values())) >= ROUNDS:
            return {name: _quiet(each) for name, each in reads.items()}
        return reads

    def _read(self, contestant: Contestant) -> Read:
        topic = self._topic
        with watched(self._pids) as load:
            begin = time.perf_counter()
            messages, size = contestant.read(0, topic.messages)
            seconds = time.perf_counter() - begin
        if (messages, size) != (topic.messages, topic.body_bytes):
            raise WrongRead(
                f"{contestant.name} read {messages} messages with {size} bytes of bodies; written were "
                f"{topic.messages} with {topic.body_bytes}"
            )
        return Read(seconds, load.others)


def _quiet(reads: list[Read]) -> list[Read]:
    return [each for each in reads if each.others <= MOST_BY_OTHERS]


def _quiet_count(reads: list[Read]) -> int:
    return len(_quiet(reads))


def median(reads: list[Read]) -> float:
    """The median of the seconds."""
    return statistics.median(each.seconds for each in reads)
