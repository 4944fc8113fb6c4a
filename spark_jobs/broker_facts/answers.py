"""What a broker answered in a collection, parsed, and what became of each request."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_jobs.broker_facts import parse
from spark_jobs.broker_facts.requests import Request, Status

_UNKNOWN = (Status.REFUSED, Status.UNSUPPORTED, Status.TIMED_OUT, Status.FAILED)


@dataclass
class Counts:
    """What became of the requests of one code."""

    name: str
    counts: dict[Status, int] = field(default_factory=lambda: dict.fromkeys(Status, 0))
    unanswered: list[str] = field(default_factory=list)
    reasons: dict[Status, str] = field(default_factory=dict)  # of the first of each kind

    def add(self, request: Request, status: Status, reason: str = "") -> None:
        self.counts[status] += 1
        if status in _UNKNOWN:
            self.reasons.setdefault(status, reason)
            if request.entity:
                self.unanswered.append(request.entity)

    def __str__(self) -> str:
        """What is unknown, in words; empty if all was answered."""
        every = sum(self.counts.values())
        return "; ".join(
            f"{self.name}: {self.counts[status]} of {every} {status.replace('_', ' ')}{reason and f' ({reason})'}"
            for status, reason in self.reasons.items()
        )


@dataclass
class Answers:
    """The parsed answers of one broker; what was not answered is None or missing."""

    broker: str
    version: int | None = None
    info: parse.RuntimeInfo | None = None
    config: parse.BrokerConfig | None = None
    topics: dict[str, parse.Topic] | None = None
    groups: dict[str, parse.Group] | None = None
    offsets: parse.GroupOffsets | None = None
    pull_offsets: parse.GroupOffsets = field(default_factory=dict)
    producers: list[parse.Producer] | None = None
    queues: dict[str, list[parse.TopicQueue]] = field(default_factory=dict)
    consumers: dict[str, parse.ConsumerConnection | None] = field(default_factory=dict)  # None: offline
    partial: list[Request] = field(default_factory=list)  # answered with the first page only
    requests: dict[int, Counts] = field(default_factory=dict)
    problem: str = ""

    def count(self, request: Request, status: Status, reason: str = "") -> None:
        self.requests.setdefault(request.code, Counts(request.name)).add(request, status, reason)
