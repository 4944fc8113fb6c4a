"""A message as its page shows it, compared with what its clients recorded."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import Page

from sandbox.record import Event
from sandbox.releases import NEWEST
from spark_jobs.lookup.wording import ATTEMPTS
from tests.e2e.test_marts_equal_the_record import OUTCOMES
from tests.records import Record

# A listener is called after its client has taken the time that is in the trace, on a machine that has other work.
CLOCK = timedelta(seconds=2)
_MS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}


@dataclass
class Attempt:
    begun: datetime
    retry: str
    outcome: str
    took_ms: float
    client: str
    has_usual: bool


@dataclass
class Lane:
    name: str
    outcome: str
    attempts: list[Attempt]


@dataclass
class Step:
    at: datetime
    text: str
    took_ms: float | None
    record: str | None


@dataclass
class Shown:
    """A message as its page shows it."""

    heading: str
    states: list[str]
    text: str
    steps: list[Step]
    lanes: list[Lane]
    absent: list[str]
    siblings: list[str]
    doubts: list[str]

    @property
    def group_names(self) -> set[str]:
        return {lane.name for lane in self.lanes}

    def lane(self, group: str) -> Lane:
        (found,) = [lane for lane in self.lanes if lane.name == group]
        return found


_READ = """() => {
  const lines = cell => cell.innerText.split("\\n").map(line => line.trim());
  const rows = table => [...table.tBodies[0].rows].map(row => [...row.cells].map(lines));
  const all = selector => [...document.querySelectorAll(selector)];
  const items = id => all(`[aria-labelledby=${id}] li`).map(item => item.innerText);
  return {
    heading: document.querySelector("h1").innerText,
    states: all("main > .outcome .state").map(each => each.innerText),
    text: document.querySelector("main").innerText,
    steps: all("table[aria-labelledby=producer]").flatMap(rows),
    records: all("table[aria-labelledby=producer] tbody tr").map(row => row.querySelector("a")?.href ?? null),
    lanes: all("section.lane").map(lane => ({
      name: lane.querySelector("h3").innerText,
      outcome: lane.querySelector(".state")?.innerText ?? "",
      attempts: rows(lane.querySelector("table")),
    })),
    absent: items("absent"),
    siblings: all("main > ol a").map(each => each.innerText),
    doubts: items("doubts"),
  };
}"""


def read(page: Page) -> Shown:
    """What the page of a message shows; the first line of a cell is its value, the others compare it."""
    found: dict[str, Any] = page.evaluate(_READ)
    steps = [
        Step(_time(time[0]), what[0], _ms(took[0]), record)
        for (time, what, took, *_), record in zip(found.pop("steps"), found.pop("records"), strict=True)
    ]
    lanes = [
        Lane(
            lane["name"],
            lane["outcome"],
            [
                Attempt(
                    _time(begun[0]), retry[0], outcome[0], _ms(took[0]), client[0], "p99" in "".join(took)
                )
                for begun, retry, _, outcome, took, client, _ in lane["attempts"]
            ],
        )
        for lane in found.pop("lanes")
    ]
    return Shown(steps=steps, lanes=lanes, **found)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _ms(text: str) -> float | None:
    """`2 min 5 s` in ms; None for a dash."""
    parts = re.findall(r"(-?[\d.]+) (ms|s|min|h)\b", text)
    return sum(float(number) * _MS[unit] for number, unit in parts) if parts else None


def sends(record: Record, kind: str, **having: Any) -> list[Event]:
    """The traced sends of a kind by the newest release."""
    return [
        send
        for send in record.sends
        if send["kind"] == kind
        and send["release"] == NEWEST.version
        and send["traced"]
        and all(send[name] == value for name, value in having.items())
    ]


def assert_sent(shown: Shown, send: Event) -> None:
    step = next(each for each in shown.steps if each.record and "Pub-" in each.record)
    assert f"sent to {send['topic']} by {send['producer_group']}" in step.text
    assert abs(step.at - at(send["sent_at_ms"])) < CLOCK
    assert 0 <= step.took_ms <= send["cost_ms"] + 1
    if send["batch_size"] == 1:
        assert send["keys"] in shown.text


def assert_consumed(shown: Shown, calls: list[Event]) -> None:
    """Each group's lane has its calls, in order, with what the listener did and how long it took."""
    groups = defaultdict(list)
    for call in sorted(calls, key=lambda call: (call["reconsume_times"], call["begin_ms"])):
        groups[call["consumer_group"]].append(call)
    assert shown.group_names == groups.keys()
    for group, of_group in groups.items():
        attempts = shown.lane(group).attempts
        assert [(a.retry, a.outcome) for a in attempts] == [
            (str(call["reconsume_times"]), ATTEMPTS[OUTCOMES[call["outcome"]]]) for call in of_group
        ]
        for attempt, call in zip(attempts, of_group, strict=True):
            assert abs(attempt.begun - at(call["begin_ms"])) < CLOCK
            # A call of several messages has the time of the whole call.
            assert abs(attempt.took_ms - (call["end_ms"] - call["begin_ms"])) < CLOCK / timedelta(
                milliseconds=1
            )
            assert attempt.has_usual


def at(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
