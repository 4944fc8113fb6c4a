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
# How long an abandoned extraction has to drop its branch.
_SECONDS_TO_STOP = 5.0
_POLL_SECONDS = 0.2


@dataclass
class Extraction:
    """The extraction of one cluster in its thread.

    Attributes:
        cluster: its name.
        read: messages that it has published.
        left: messages that were left on the brokers after the last piece; None before the first.
        failures: queue or cluster to the reason why it cannot be read.
        error: what ended it, if no failure of the cluster did.
        abandoned: set when it should stop.
    """

    cluster: str
    read: int = 0
    left: int | None = None
    failures: dict[str, str] = field(default_factory=dict)
    error: Exception | None = None
    abandoned: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread = field(init=False)

    @property
    def is_running(self) -> bool:
        return self.thread.is_alive()


class Extractions:
    """The running extractions; see `side_by_side`."""

    def __init__(self, extractions: list[Extraction]):
        self._all = extractions
        self._started = time.monotonic()

    def wait(self, seconds: float) -> list[str]:
        """Wait until all have ended, or none has for so many seconds while one has; return the clusters that have not."""
        running, last = self._all, self._started
        while left := [each for each in self._all if each.is_running]:
            now = time.monotonic()
            if len(left) < len(running):
                running, last = left, now
            elif len(left) < len(self._all) and now - last >= seconds:
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
                found[each.cluster].append(
                    f"cluster {each.cluster}: nothing was read in the time that the other clusters took, and they do not "
                    "wait for it; the next run tries again. If its brokers are slow but healthy, raise "
                    "extract.wait_seconds (TRACE_EXTRACT__WAIT_SECONDS)"
                )
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
