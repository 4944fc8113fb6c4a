"""Extract several clusters side by side, each in a thread, so that a slow cluster never delays the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.util import InheritableThread

# A cluster beside others is read in pieces, each published on its own, so that one that is not done in time goes on where
# it stopped. The first is small; then each takes about so long.
FIRST_PIECE = 10_000
PIECE_SECONDS = 10.0
# How long the others wait for a cluster that is read piece by piece; and how long nameservers have to answer, from the start.
SHORT_SECONDS = 5.0
# How long an abandoned extraction has to drop its branch.
_SECONDS_TO_STOP = 5.0
_POLL_SECONDS = 0.2


@dataclass
class Extraction:
    """The extraction of one cluster in its thread.

    Attributes:
        cluster: its name.
        answered: whether a nameserver has answered.
        read: messages that it has published.
        left: messages that were left on the brokers after the last piece; None before the first.
        failures: queue or cluster to the reason why it cannot be read.
        error: what ended it, if no failure of the cluster did.
        abandoned: set when it should stop.
        started: when it started, monotonic clock.
    """

    cluster: str
    answered: bool = False
    read: int = 0
    left: int | None = None
    failures: dict[str, str] = field(default_factory=dict)
    error: Exception | None = None
    abandoned: threading.Event = field(default_factory=threading.Event)
    started: float = field(default_factory=time.monotonic)
    thread: threading.Thread = field(init=False)

    @property
    def is_running(self) -> bool:
        return self.thread.is_alive()

    @property
    def has_succeeded(self) -> bool:
        """Whether it has ended, and its brokers were read."""
        return not self.is_running and self.left is not None

    def waited_for_until(self, since: float, seconds: float) -> float:
        """Until when the others wait for it, monotonic clock.

        Args:
            since: when the last of the others ended.
            seconds: how long they wait then, while its first piece is read.
        """
        if not self.answered:
            return self.started + SHORT_SECONDS
        return since + (seconds if self.left is None else SHORT_SECONDS)


class Extractions:
    """The running extractions; see `side_by_side`."""

    def __init__(self, extractions: list[Extraction]):
        self._all = extractions

    def wait(self, seconds: float) -> list[str]:
        """Wait until all have ended, or until the others have waited long enough; return the clusters that still run.

        The others are those that have succeeded. While there are none, nobody is delayed.

        Args:
            seconds: how long they wait, since the last of them ended, for a cluster that answers and of which nothing is
                published yet. For one that is read piece by piece that is `SHORT_SECONDS`. Nobody waits for a cluster whose
                nameservers have not answered `SHORT_SECONDS` after its start.
        """
        done, since = 0, time.monotonic()
        while left := [each for each in self._all if each.is_running]:
            now = time.monotonic()
            if (succeeded := sum(each.has_succeeded for each in self._all)) > done:
                done, since = succeeded, now
            if done and all(now >= each.waited_for_until(since, seconds) for each in left):
                break
            left[0].thread.join(_POLL_SECONDS)
        return [each.cluster for each in left]

    @property
    def failures(self) -> dict[str, list[str]]:
        """After the block: cluster to the reasons why it, or queues of it, could not be read; without those that could.

        An abandoned cluster has failed if nothing of it was published.
        """
        found = {each.cluster: [*each.failures.values()] for each in self._all}
        for each in self._all:
            if each.abandoned.is_set() and each.left is None:
                found[each.cluster].append(_nothing_read(each))
        return {cluster: reasons for cluster, reasons in found.items() if reasons}

    @property
    def unfinished(self) -> dict[str, int]:
        """After the block: abandoned cluster to the number of messages that were left after its last piece."""
        return {
            each.cluster: each.left for each in self._all if each.abandoned.is_set() and each.left is not None
        }

    def raise_error(self) -> None:
        """Raise what ended an extraction, if it was no failure of its cluster."""
        for each in self._all:
            if each.error is not None and not each.abandoned.is_set():
                raise each.error


def _nothing_read(extraction: Extraction) -> str:
    if not extraction.answered:
        why = "no nameserver has answered yet"
    else:
        why = (
            "its first piece was not read in that time. If its brokers are slow but healthy, raise "
            "extract.wait_seconds (TRACE_EXTRACT__WAIT_SECONDS)"
        )
    return (
        f"cluster {extraction.cluster}: nothing was read while the other clusters were read and merged: {why}. "
        "The next run tries again"
    )


@contextmanager
def side_by_side(
    clusters: list[str], extract: Callable[[Extraction], None], cancel: Callable[[str], None]
) -> Iterator[Extractions]:
    """Extract each cluster in a thread of its own within the block; abandon those that run at its end.

    Args:
        clusters: their names.
        extract: extracts the cluster of the `Extraction` until it is done or abandoned, and fills it in.
        cancel: cancels the Spark jobs of a cluster.
    """

    def run(extraction: Extraction) -> None:
        try:
            extract(extraction)
        except Exception as error:
            extraction.error = error

    extractions = [Extraction(each) for each in clusters]
    for each in extractions:
        # A daemon: one that waits for a silent broker does not keep the process alive.
        each.thread = InheritableThread(target=run, args=(each,), name=f"extract {each.cluster}", daemon=True)
        each.thread.start()
    try:
        yield Extractions(extractions)
    finally:
        _abandon([each for each in extractions if each.is_running], cancel)


def _abandon(extractions: list[Extraction], cancel: Callable[[str], None]) -> None:
    """Stop the extractions; what one of them has published stays, and its unpublished piece is read again later."""
    for each in extractions:
        each.abandoned.set()
    until = time.monotonic() + _SECONDS_TO_STOP
    while (left := [each for each in extractions if each.is_running]) and time.monotonic() < until:
        for each in left:
            cancel(each.cluster)
        left[0].thread.join(_POLL_SECONDS)


def next_piece(messages: int, seconds: float) -> int:
    """How many messages to read next after so many were read in so long."""
    return max(FIRST_PIECE, int(messages / seconds * PIECE_SECONDS)) if seconds else FIRST_PIECE
