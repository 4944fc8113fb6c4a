"""What a check is, what it measures, and how a measurement is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from spark_jobs.checks.formatting import Unit
from spark_jobs.settings import Route, Settings, Severity

if TYPE_CHECKING:  # the watchdog starts neither
    from pyspark.sql import SparkSession

    from spark_jobs.checks.brokers import ClusterAnswers
    from spark_jobs.mart_build.dbt import Build

# What the detail of a check begins with that raised an error.
COULD_NOT_BE_CHECKED = "could not be checked: "
# The parts of an entity that is a queue; see `ingest.positions.Queue`.
QUEUE = "cluster/topic/broker/queue"
Class = Literal["integrity", "messaging", "freshness"]
# Who makes a check: the merge, the marts job before (gate) or after it publishes, the daily test of all marts (history),
# the watchdog of the lake and then of the brokers, Airflow's callbacks, or the supervisor of `make up`.
Stage = Literal["merge", "gate", "marts", "history", "watchdog", "brokers", "airflow", "supervisor"]


@dataclass(frozen=True)
class Run:
    """What a check may read, and the only time that it knows.

    Attributes:
        settings: where the lake is, and the limits.
        now: UTC.
        spark: None in the watchdog.
        watermarks: per cluster, ms; of what the marts were built from.
        build: dbt's nodes (gate).
        branch: that the marts were built on (gate).
    """

    settings: Settings
    now: datetime
    spark: SparkSession | None = None
    watermarks: dict[str, int] | None = None
    build: Build | None = None
    branch: str | None = None

    @cached_property
    def brokers(self) -> dict[str, ClusterAnswers]:
        """What they say of the queues, by cluster; asked when it is first read."""
        from spark_jobs.checks import brokers  # it needs the client, which only the watchdog does

        return brokers.ask(self.settings)


@dataclass(frozen=True)
class Measured:
    """One entity as a check found it.

    Attributes:
        entity: cluster, topic, group, queue, test or task, never a time or a run; None: the table as a whole.
        value: in the unit of the check's limit; None: it could not be measured, which is a failure.
        detail: the value in words.
        verdict: `compare` with the limit; `pass`, as a rate of too few events does; `unknown`: nothing can be said;
            `never`: it was not there yet, which is a failure when it stays so for as long as the limit says, minutes.
        partition: the part of the table that was looked at; None: all of it.
    """

    entity: str | None
    value: float | None
    detail: str = ""
    verdict: Literal["compare", "pass", "unknown", "never"] = "compare"
    partition: str | None = None


@dataclass(frozen=True)
class Check:
    """A check, as docs/checks.md shows it.

    Attributes:
        name: also of its runbook, docs/runbooks/<name>.md.
        table: that it judges, without the catalog.
        kind: `integrity` stops a publication of the marts, the others never do.
        severity: of a failure, unless the settings say otherwise.
        route: who is told.
        stage: who makes it.
        definition: when it fails, in one sentence.
        measure: what it finds; a failing entity may be left out only where it is no longer there.
        limit: field of `settings.Checks`; None: the limit is 0.
        fails: on which side of the limit.
        title: of an alert, without environment and limit: what is wrong, with `{value}`, `{detail}`, `{entity}` and the
            parts of the entity in braces; None: made from the definition.
        entity: the names of the entity's parts, such as `cluster/topic/group`; None: it has no parts.
        unit: of the value and the limit.
    """

    name: str
    table: str
    kind: Class
    severity: Severity
    route: Route
    stage: Stage
    definition: str
    measure: Callable[[Run], Iterable[Measured]]
    limit: str | None = None
    fails: Literal["above", "below"] = "above"
    title: str | None = None
    entity: str | None = None
    unit: Unit = "count"


@dataclass(frozen=True)
class Result:
    """A judged measurement: what becomes a row of `lake.ops.check_results`.

    A failure without a value could not be measured, unless `never`: then what it measures was never there.
    """

    entity: str | None
    value: float | None
    threshold: float
    passed: bool | None
    detail: str
    partition: str | None = None
    never: bool = False


@dataclass(frozen=True)
class Evaluation:
    """What came of a check in one run; `complete`: an entity that is not among the results is no more."""

    check: Check
    severity: Severity
    results: tuple[Result, ...]
    complete: bool

    @property
    def failures(self) -> list[Result]:
        return [result for result in self.results if result.passed is False]


def judge(check: Check, measured: Iterable[Measured], settings: Settings) -> Evaluation:
    """Hold what was measured against the limits. A check that found no entity passes as a whole."""
    found = tuple(measured)
    results = tuple(_judged(check, each, settings) for each in found)
    if not found:
        results = (Result(None, None, threshold(check, None, settings), True, "nothing to judge"),)
    complete = all(each.value is not None and each.verdict != "unknown" for each in found)
    return Evaluation(check, severity(check, settings), results, complete)


def could_not_be_made(check: Check, error: Exception, settings: Settings) -> Evaluation:
    """A check that raised: failed as a whole, and nothing is known of its entities."""
    name, text = type(error).__name__, str(error).strip()
    if hasattr(error, "java_exception"):  # py4j's first line names a call, and the second the error
        text = text.partition("\n: ")[2] or text
    text = text.partition("\n")[0][:500]
    why = f"{COULD_NOT_BE_CHECKED}{name}{f': {text}' if text else ''}"
    result = Result(None, None, threshold(check, None, settings), False, why)
    return Evaluation(check, severity(check, settings), (result,), complete=False)


def threshold(check: Check, entity: str | None, settings: Settings) -> float:
    general = getattr(settings.checks, check.limit) if check.limit else 0.0
    return settings.checks.of_entity.get(f"{check.name}:{entity}", general)


def runbook(check: Check, settings: Settings) -> str:
    return f"{settings.alerts.runbook_base_url.rstrip('/')}/{check.name}.md"


def severity(check: Check, settings: Settings) -> Severity:
    return settings.checks.severity.get(check.name, check.severity)


def _judged(check: Check, measured: Measured, settings: Settings) -> Result:
    limit = threshold(check, measured.entity, settings)
    passed: bool | None
    if measured.verdict in ("pass", "unknown"):
        passed = True if measured.verdict == "pass" else None
    elif measured.value is None:
        passed = False
    else:
        passed = measured.value <= limit if check.fails == "above" else measured.value >= limit
    never = measured.verdict == "never"
    return Result(measured.entity, measured.value, limit, passed, measured.detail, measured.partition, never)


def rate(entity: str, part: float, whole: float, what: str, settings: Settings) -> Measured:
    """A share, which passes where it is of fewer than `minimum_events`."""
    few = whole < settings.checks.minimum_events
    detail = f"{part:g} of {whole:g} {what}" + (", too few to judge" if few else "")
    return Measured(entity, part / whole if whole else 0.0, detail, "pass" if few else "compare")
