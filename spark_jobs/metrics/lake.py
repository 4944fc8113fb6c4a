"""Metrics of the lake as it is now: how far each stage is, unread messages, checks, open alerts; read with pyiceberg."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.exceptions import NoSuchTableError

from spark_jobs.checks.registry import CHECKS
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import Positions, committed_positions, watermarks
from spark_jobs.lake.tables import ALERTS, CHECK_RESULTS, EVENTS, RAW
from spark_jobs.mart_build.inputs import Published
from spark_jobs.metrics.metric import Found, Metric, Series
from spark_jobs.settings import Settings

# Checks run at least once a day.
_RECENT = timedelta(days=2)

COMPLETE_TO = Metric(
    "complete_to_timestamp_seconds",
    ("cluster", "stage"),
    "Time up to which every trace message that the brokers stored is in the stage: `raw`, `events` or `marts`; no series before "
    "the first one.",
    "committed offsets, watermarks",
    unit="seconds",
)
READ = Metric(
    "read_messages",
    ("cluster", "trace_topic", "stage"),
    "Offsets of the trace topic's queues up to which everything is in the stage, `raw` or `events`, added up.",
    "committed offsets",
    kind="counter",
)
UNREAD = Metric(
    "unread_messages",
    ("cluster", "trace_topic"),
    "Trace messages that the brokers have and raw does not, at the last evaluation of the check `lag`.",
    CHECK_RESULTS.name,
)
EVALUATED = Metric(
    "check_evaluated_timestamp_seconds",
    ("check",),
    "When the check was last evaluated; no series if that is more than two days ago.",
    CHECK_RESULTS.name,
    unit="seconds",
)
ENTITIES = Metric(
    "check_entities",
    ("check", "verdict"),
    "Entities of the check by their verdict, `passed`, `failed` or `unknown`, at its last evaluation.",
    CHECK_RESULTS.name,
)
OPEN = Metric(
    "open_alerts",
    ("check", "severity", "route"),
    "Alerts that are open; 0 for a check without one.",
    ALERTS.name,
)
METRICS = (COMPLETE_TO, READ, UNREAD, EVALUATED, ENTITIES, OPEN)


def read(settings: Settings, now: datetime) -> Found:
    """All series of the lake; a table that does not exist yet has no rows, and a cluster that is not configured no watermarks.

    Raises:
        WrongLakeError: the lake was copied from elsewhere.
        SettingsError: credentials are missing.
        DamagedTableError: a metadata file cannot be read.
    """
    configured = {cluster.name for cluster in settings.clusters}
    positions = {
        stage: {
            queue: position
            for queue, position in committed_positions(settings, table).items()
            if queue.cluster in configured
        }
        for stage, table in (("raw", RAW), ("events", EVENTS))
    }
    results = _rows(settings, CHECK_RESULTS.name, f"evaluated_at >= '{(now - _RECENT).isoformat()}'")
    newest = _newest(results)
    return {
        COMPLETE_TO: _complete_to(positions, Published.of(settings), configured),
        READ: _read(positions),
        UNREAD: _unread(newest),
        EVALUATED: [
            Series((check,), at.timestamp())
            for check, at in {row["check"]: row["evaluated_at"] for row in newest}.items()
        ],
        ENTITIES: _entities(newest),
        OPEN: _open(_rows(settings, ALERTS.name, "state != 'resolved'")),
    }


def _rows(settings: Settings, table: str, condition: str) -> list[dict[str, Any]]:
    try:
        return lake(settings).load_table(table).scan(condition).to_arrow().to_pylist()
    except NoSuchTableError:
        return []


def _complete_to(
    positions: dict[str, Positions], published: Published | None, configured: Collection[str]
) -> list[Series]:
    found = [
        Series((cluster, stage), ms / 1000)
        for stage, of in positions.items()
        for cluster, ms in watermarks(of).items()
        if ms
    ]
    for cluster, mark in (published.watermarks if published else {}).items():
        seconds = datetime.fromisoformat(mark).replace(tzinfo=UTC).timestamp()
        if seconds and cluster in configured:
            found.append(Series((cluster, "marts"), seconds))
    return found


def _read(positions: dict[str, Positions]) -> list[Series]:
    total: Counter[tuple[str, ...]] = Counter()
    for stage, of in positions.items():
        for queue, position in of.items():
            total[queue.cluster, queue.trace_topic, stage] += position.next
    return _counted(total)


def _newest(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results of the last evaluation of each check, which has one time for all entities."""
    last: dict[str, datetime] = {}
    for row in results:
        last[row["check"]] = max(last.get(row["check"], row["evaluated_at"]), row["evaluated_at"])
    return [row for row in results if row["evaluated_at"] == last[row["check"]]]


def _unread(newest: list[dict[str, Any]]) -> list[Series]:
    total: Counter[tuple[str, ...]] = Counter()
    for row in newest:
        parts = (row["entity"] or "").split("/")
        if row["check"] == "lag" and row["value"] is not None and len(parts) == 4:
            total[parts[0], parts[1]] += row["value"]
    return _counted(total)


def _entities(newest: list[dict[str, Any]]) -> list[Series]:
    verdicts = {True: "passed", False: "failed", None: "unknown"}
    total: Counter[tuple[str, ...]] = Counter(
        {(row["check"], verdict): 0 for row in newest for verdict in verdicts.values()}
    )
    total.update((row["check"], verdicts[row["passed"]]) for row in newest)
    return _counted(total)


def _open(alerts: Iterable[dict[str, Any]]) -> list[Series]:
    total: Counter[tuple[str, ...]] = Counter(
        (alert["check"], alert["severity"], alert["route"]) for alert in alerts
    )
    seen = {check for check, _, _ in total}
    none: dict[tuple[str, ...], int] = {
        (check.name, check.severity, check.route): 0 for check in CHECKS if check.name not in seen
    }
    return _counted({**total, **none})


def _counted(total: Mapping[tuple[str, ...], float]) -> list[Series]:
    return [Series(labels, float(value)) for labels, value in total.items()]
