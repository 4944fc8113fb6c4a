"""Whether a build would change the published marts, or is due for another reason; read with pyiceberg, without Spark.

Without new records, a build changes rows whose `next_review_at` the watermark has passed, and those that changed broker facts
decide. The published table `intermediate.int_next_builds` has what the last build knew of this. What else changes with the
watermark alone, such as the hour whose coverage is judged, a build computes once per hour (docs/incremental.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import (
    CONSUMERS,
    GROUP_OFFSETS,
    GROUPS,
    INGEST_GAPS,
    MESSAGE_CHECKS,
    OBSERVATIONS,
    PRODUCERS,
    PUBLICATIONS,
    SUBSCRIPTIONS,
    TOPIC_OFFSETS,
    Table,
)
from spark_jobs.mart_build.inputs import Inputs, Published
from spark_jobs.settings import Settings

NEXT_BUILDS = "intermediate.int_next_builds"
PUBLISHED_GAPS = "intermediate.int_ingest_gaps"
# The tables of broker facts that models read, whose rows have the times from which and to which they are valid.
PERIODS = (TOPIC_OFFSETS, GROUPS, CONSUMERS, SUBSCRIPTIONS, GROUP_OFFSETS, PRODUCERS)
# The requests of which models ask whether they were answered (stg_broker_observations).
_REQUESTS = (21, 43, 202)


@dataclass(frozen=True)
class LastBuild:
    """A row of `intermediate.int_next_builds`, whose columns have the same names; times are UTC."""

    cluster: str
    watermark: datetime
    as_of: datetime | None
    next_review_at: datetime | None
    last_unconsumed_at: datetime | None


def reason(settings: Settings, inputs: Inputs, published: Published | None) -> str | None:
    """Why a build is due, in a few words; None if the published marts are those of the inputs.

    Args:
        settings: where the lake is, and the limits.
        inputs: those that a build would have now. Broker facts that are added later are not seen.
        published: the inputs of the published marts.
    """
    if published is None or inputs.change_seq_from is None:
        return "all rows are to be computed: nothing is published, all models have changed, or a watermark went back"
    if inputs.definitions != published.definitions:
        return f"models or limits have changed: {', '.join(sorted(inputs.rebuilt))}"
    if inputs.change_seq_to != published.change_seq_to:
        return "there are new records"
    catalog = lake(settings)
    if _all(catalog, PUBLICATIONS.name, "published_at is null"):
        return "an earlier publication is not finished"
    if inputs.adds_nothing_to(published):
        return None
    try:
        last = [LastBuild(**row) for row in _all(catalog, NEXT_BUILDS)]
    except NoSuchTableError:
        return f"{NEXT_BUILDS} does not exist"
    marks = {
        cluster: datetime.fromisoformat(mark).replace(tzinfo=UTC) for cluster, mark in inputs.marks.items()
    }
    if new := marks.keys() - {each.cluster for each in last}:
        return f"new: {', '.join(sorted(new))}"
    found = by_cluster(catalog, settings, last, marks)
    return "; ".join(f"{cluster}: {why}" for cluster, why in sorted(found.items())) or None


def by_cluster(
    catalog: Catalog, settings: Settings, last: list[LastBuild], watermarks: dict[str, datetime]
) -> dict[str, str]:
    """Cluster to why a build is due at these watermarks, without new records; the other clusters are left out.

    A build changes nothing of a cluster whose watermark has not moved: broker facts count from a later watermark on.
    """
    moved = [each for each in last if watermarks.get(each.cluster, each.watermark) > each.watermark]
    found = {each.cluster: by_time(each, watermarks[each.cluster], settings) for each in moved}
    found |= _by_burns(catalog, found.keys())
    by_facts = _by_facts(catalog, [each for each in moved if not found[each.cluster]])
    return _by_gaps(catalog) | {cluster: why for cluster, why in found.items() if why} | by_facts


def by_time(last: LastBuild, watermark: datetime, settings: Settings) -> str | None:
    """Why a build of a cluster is due at this watermark, without new records and facts; None if it is not."""
    grace = timedelta(seconds=settings.limits.grace_seconds)
    if last.next_review_at and last.next_review_at <= watermark:
        return f"the state of a message changes at {last.next_review_at:%F %T} UTC"
    if _hour(watermark - grace) > _hour(last.watermark - grace):
        return "an hour has passed"
    if last.last_unconsumed_at:
        known_to = min(last.watermark, last.as_of or last.watermark)
        if known_to < last.last_unconsumed_at + _settled_after(settings):
            return "messages were not consumed a short time ago"
    return None


def _settled_after(settings: Settings) -> timedelta:
    """How long after a message the offsets of its group, and the check `group_silent`, may still give another answer."""
    limits = settings.limits
    longest = max(limits.offsets_lag_seconds, settings.checks.group_silent_minutes * 60)
    return timedelta(seconds=longest + 2 * limits.grace_seconds)


def _by_burns(catalog: Catalog, clusters: Collection[str]) -> dict[str, str]:
    """The clusters with events that count against an objective and leave or enter a short window."""
    rows = _all(catalog, "marts.slo_burn", "short_bad > 0 or later_bad > 0")
    return {row["cluster"]: "an objective has bad events" for row in rows if row["cluster"] in clusters}


def _by_gaps(catalog: Catalog) -> dict[str, str]:
    """The clusters with ingest gaps that their marts do not have."""
    gaps = {(row["cluster"], row["from_time"], row["to_time"]) for row in _all(catalog, INGEST_GAPS.name)} - {
        (row["cluster"], row["gap_from"], row["gap_to"]) for row in _all(catalog, PUBLISHED_GAPS)
    }
    return {cluster: f"{INGEST_GAPS.name} has changed" for cluster, _, _ in gaps}


def _by_facts(catalog: Catalog, last: list[LastBuild]) -> dict[str, str]:
    """The clusters with broker facts that their marts do not have."""
    # A cluster without facts may have been asked since.
    as_of = {each.cluster: each.as_of or each.watermark - timedelta(hours=1) for each in last}
    found: dict[str, str] = {}
    for table in PERIODS:
        # In two steps: pyiceberg cannot compare a partition without a time (NULL) in an `or`.
        found |= _newer(catalog, table, "valid_from", as_of, "valid_to is null and ")
        found |= _newer(catalog, table, "valid_to", as_of)
    return found | _newer(catalog, MESSAGE_CHECKS, "checked_at", as_of) | _by_answers(catalog, as_of)


def _newer(
    catalog: Catalog, table: Table, time: str, since: dict[str, datetime], also: str = ""
) -> dict[str, str]:
    """The clusters with rows that are newer than the time of their cluster."""
    rows = _since(catalog, table, time, since, ("cluster", time), also)
    newer = {row["cluster"] for row in rows if row[time] > since.get(row["cluster"], row[time])}
    return {cluster: f"{table.name} has changed" for cluster in newer}


def _by_answers(catalog: Catalog, as_of: dict[str, datetime]) -> dict[str, str]:
    """The clusters whose brokers answer other requests at the last collection than at that of the marts."""
    answers: dict[str, dict[datetime, set[object]]] = defaultdict(lambda: defaultdict(set))
    columns = ("cluster", "broker", "observed_at", "reached", "requests")
    for row in _since(catalog, OBSERVATIONS, "observed_at", as_of, columns):
        cluster, at = row["cluster"], row["observed_at"]
        if cluster in as_of and at >= as_of[cluster]:
            requests = (
                (each["code"], bool(each["answered"]), tuple(sorted(each["unanswered"] or ())))
                for each in row["requests"] or ()
                if each["code"] in _REQUESTS
            )
            answers[cluster][at].add((row["broker"], row["reached"], *sorted(requests)))
    return {
        cluster: "brokers answer other requests than before"
        for cluster, by_time in answers.items()
        if by_time[min(by_time)] != by_time[max(by_time)]
    }


def _hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


def _all(catalog: Catalog, table: str, condition: str = "true") -> list[dict[str, Any]]:
    return list(catalog.load_table(table).scan(condition).to_arrow().to_pylist())


def _since(
    catalog: Catalog,
    table: Table,
    time: str,
    since: dict[str, datetime],
    columns: tuple[str, ...],
    also: str = "",
) -> list[dict[str, Any]]:
    """The rows since the earliest of these times."""
    if not since:
        return []
    newer = f"{also}{time} >= '{min(since.values()).isoformat()}'"
    return list(catalog.load_table(table.name).scan(newer, selected_fields=columns).to_arrow().to_pylist())
