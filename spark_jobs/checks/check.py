"""The types of a check: its definition, what it measures, and how a measurement is compared with the limit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from spark_jobs.checks.formatting import Unit
from spark_jobs.settings import Route, Settings, Severity

if TYPE_CHECKING:  # the watchdog loads none of them
    from pyspark.sql import Row, SparkSession

    from spark_jobs.checks.brokers import ClusterAnswers
    from spark_jobs.checks.compared import RawOffsets
    from spark_jobs.lake.offsets import Positions
    from spark_jobs.mart_build.dbt import Build
    from spark_jobs.trace.audit import Audit

# Prefix of the detail of a check that raised an error.
COULD_NOT_BE_CHECKED = "could not be checked: "
# The parts of an entity that is a queue; see `lake.offsets.Queue`.
QUEUE_ENTITY = "cluster/topic/broker/queue"
Class = Literal["integrity", "messaging", "freshness"]
# Who runs a check: the merge, the marts job before (gate) or after it publishes, the daily tests of the full history, the
# watchdog for the lake and then for the brokers, Airflow's callbacks, or the supervisor of `make up`.
Stage = Literal["merge", "gate", "marts", "history", "watchdog", "brokers", "airflow", "supervisor"]


@dataclass(frozen=True)
class Run:
    """What a check may read; `now` is its only clock.

    Attributes:
        settings: the lake and the limits.
        now: UTC.
        spark: None in the watchdog.
        watermarks: per cluster, ms; those that the marts were built with.
        build: dbt's nodes (gate).
        branch: the branch that the marts were built on (gate).
        serving_error: why the serving file could not be built (marts).
        compared_from: the offsets of events from which on checks `of_new_messages` compare raw and events; None for all
            messages that were stored in the last `integrity_days`.
        audit: of the merge before the checks; with `compared_from`, what it has compared is not compared again.
    """

    settings: Settings
    now: datetime
    spark: SparkSession | None = None
    watermarks: dict[str, int] | None = None
    build: Build | None = None
    branch: str | None = None
    serving_error: str | None = None
    compared_from: Positions | None = None
    audit: Audit | None = None

    @cached_property
    def brokers(self) -> dict[str, ClusterAnswers]:
        """The state of the queues per cluster; queried at the first access."""
        from spark_jobs.checks import brokers  # it needs the client, which only the watchdog does
        from spark_jobs.lake.offsets import committed_positions
        from spark_jobs.lake.tables import RAW

        return brokers.query(self.settings, committed_positions(self.settings, RAW))

    @cached_property
    def raw_offsets(self) -> RawOffsets:
        """The offsets of raw; queried at the first access."""
        from spark_jobs.checks.compared import RawOffsets  # it imports pyspark

        return RawOffsets.of(self)

    @cached_property
    def gaps(self) -> list[Row]:
        """The rows of `ops.ingest_gaps`; read at the first access."""
        from spark_jobs.checks.compared import gaps

        return gaps(self)


@dataclass(frozen=True)
class Measured:
    """The measurement of one entity.

    Attributes:
        entity: cluster, topic, group, queue, test or task, never a time or a run; None for the table as a whole.
        value: in the unit of the check's limit; None if it could not be measured, which is a failure.
        detail: the value in words.
        verdict: `compare` with the limit; `pass`, for a rate of too few events; `unknown` if it cannot be judged;
            `never` if it has not happened yet, which is a failure once that lasts longer than the limit, minutes.
        partition: the part of the table that was read; None for all of it.
    """

    entity: str | None
    value: float | None
    detail: str = ""
    verdict: Literal["compare", "pass", "unknown", "never"] = "compare"
    partition: str | None = None


Measure = Callable[[Run], Iterable[Measured]]


@dataclass(frozen=True)
class Check:
    """The definition of a check, as in docs/checks.md; `check` makes it from a function.

    Attributes:
        name: also the name of its runbook, docs/runbooks/<name>.md.
        table: the table that it checks, without the catalog.
        kind: a failed `integrity` check prevents the publication of the marts, other kinds never do.
        severity: of a failure, unless overridden in the settings.
        route: which sinks are notified.
        stage: who runs it.
        definition: when it fails, in one sentence.
        measure: yields the measurements; an entity may be left out only if it no longer exists.
        limit: field of `settings.Checks`; None if the limit is 0.
        fails: on which side of the limit.
        title: title of its alerts, without environment and limit: what is wrong, with `{value}`, `{detail}`, `{entity}`
            and the parts of the entity in braces; None to derive it from the definition.
        entity: the names of the entity's parts, such as `cluster/topic/group`; None if it has no parts.
        unit: of the value and the limit.
        of_new_messages: after a merge it covers new messages only; see `Run.compared_from`.
    """

    name: str
    table: str
    kind: Class
    stage: Stage
    definition: str
    measure: Measure
    severity: Severity = "critical"
    route: Route = "pipeline"
    limit: str | None = None
    fails: Literal["above", "below"] = "above"
    title: str | None = None
    entity: str | None = None
    unit: Unit = "count"
    of_new_messages: bool = False


def check(table: str, title: str, **fields: Any) -> Callable[[Measure], Check]:
    """Decorate a function that measures, and make it a `Check`; `fields` are further attributes of `Check`.

    The function's name is the name of the check. The first line of its docstring is the definition: when the check fails.
    """

    def decorate(measure: Measure) -> Check:
        definition = (inspect.getdoc(measure) or "").partition("\n")[0]
        return Check(measure.__name__, table, title=title, definition=definition, measure=measure, **fields)

    return decorate


@dataclass(frozen=True)
class Result:
    """A measurement with its verdict: a row of `lake.ops.check_results`.

    A failure without a value could not be measured, unless `never`: then what is measured has never happened.
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
    """The results of a check in one run.

    Attributes:
        check: the check.
        severity: of its failures.
        results: one per entity.
        complete: an entity without a result no longer exists.
        partial: it covered new messages only, so a pass does not end an earlier failure.
    """

    check: Check
    severity: Severity
    results: tuple[Result, ...]
    complete: bool
    partial: bool = False

    @property
    def failures(self) -> list[Result]:
        return [result for result in self.results if result.passed is False]


def judge(check: Check, measured: Iterable[Measured], settings: Settings) -> Evaluation:
    """Compare the measurements with the limits. A check without any entity passes as a whole."""
    found = tuple(measured)
    results = tuple(_judged(check, each, settings) for each in found)
    if not found:
        results = (Result(None, None, threshold(check, None, settings), True, "there was nothing to check"),)
    complete = all(each.value is not None and each.verdict != "unknown" for each in found)
    return Evaluation(check, severity(check, settings), results, complete)


def could_not_be_made(check: Check, error: Exception, settings: Settings) -> Evaluation:
    """The evaluation of a check that raised: it failed as a whole, and the state of its entities is unknown."""
    name, text = type(error).__name__, str(error).strip()
    if hasattr(error, "java_exception"):  # its first line names the call, the second the error
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
    """A rate, which passes if it is based on fewer than `minimum_events`."""
    few = whole < settings.checks.minimum_events
    detail = f"{part:g} of {whole:g} {what}" + (", too few to judge" if few else "")
    return Measured(entity, part / whole if whole else 0.0, detail, "pass" if few else "compare")
