"""Checks of the marts that were just published: the health of the messaging of each cluster, and the serving file.

Rates cover the last `window_hours` before the cluster's watermark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from pyspark.sql import Row

from spark_jobs.checks.check import Measured, Run, check, rate

_messaging = partial(check, kind="messaging", stage="marts", severity="warning", route="messaging")
_CLIENT_HOST = "regexp_replace(substring_index(client, '@', 1), ':[0-9]+$', '')"


@_messaging(
    "marts.trace_completeness",
    "only {value} of the consumer records arrived",
    limit="completeness",
    fails="below",
    entity="cluster",
    unit="share",
)
def completeness(run: Run) -> Iterator[Measured]:
    """Too few of a cluster's consumer records arrived.

    Measured per cluster: the estimated share; 0 if no record has its pair.
    """
    columns = "sum(pairs) as both, sum(ends_without_begin) as ends, sum(begins_without_end) as begins"
    for row in _of_window(run, "trace_completeness", f"cluster, {columns}"):
        both, seen = row.both, 2 * row.both + row.ends + row.begins
        if both:
            estimated = 2 * (both + row.begins) * (both + row.ends) / both
            yield rate(row.cluster, seen, estimated, "records arrived, by estimate", run.settings)
        elif seen:
            yield rate(row.cluster, 0, seen, "records have their pair", run.settings)


@_messaging(
    "marts.clock_skew",
    "the clock of {host} is wrong by {value}",
    limit="clock_skew_ms",
    entity="cluster/host",
    unit="ms",
)
def clock_skew(run: Run) -> Iterator[Measured]:
    """The clock of a client host is too far ahead, or its latencies are too far below zero.

    Measured per client host whose clock is ahead, or with negative latencies: the maximum, ms.
    """
    columns = f"cluster, {_CLIENT_HOST} as host, max(lead_ms) as ahead, max(max_skew_ms) as negative"
    for row in _of_window(run, "clock_skew", columns, "client is not null"):
        ahead, negative = row.ahead or 0, row.negative or 0
        if ahead <= 0 and row.negative is None:
            continue
        text = f"clock ahead of the broker's by {ahead} ms or more, negative latencies of up to {negative} ms"
        yield Measured(f"{row.cluster}/{row.host}", max(ahead, negative), text)


@_messaging(
    "marts.duplicates",
    "{value} of the deliveries to {group} have duplicates",
    limit="duplicate_rate",
    entity="cluster/group",
    unit="share",
)
def duplicate_rate(run: Run) -> Iterator[Measured]:
    """Too many deliveries to a consumer group have duplicates.

    Measured per consumer group: the share of deliveries that were consumed more than once.
    """
    columns = "cluster, consumer_group, sum(duplicated) as duplicated, sum(deliveries) as deliveries"
    for row in _of_window(run, "duplicates", columns):
        entity = f"{row.cluster}/{row.consumer_group}"
        yield rate(entity, row.duplicated, row.deliveries, "deliveries have duplicates", run.settings)


@_messaging(
    "marts.orphan_rate",
    "proven: {value} of the messages of {topic} were not consumed by {group}",
    severity="critical",
    limit="orphans_proven",
    entity="cluster/topic/group",
    unit="share",
)
def orphans_proven(run: Run) -> Iterator[Measured]:
    """Proven: too many messages of a topic were not consumed by a group.

    Measured per topic and expected group: the share of judged messages that are orphans with evidence `proven`. It is
    compared however few messages were judged.
    """
    for row, causes in _orphans(run):
        text = f"{row.proven} of {row.judged} messages are orphans with evidence proven (causes: {causes})"
        yield Measured(_pair(row), row.proven / row.judged if row.judged else 0.0, text)


@_messaging(
    "marts.orphan_rate",
    "not proven: {value} of the messages of {topic} have no trace of a consumption by {group}",
    limit="orphan_rate",
    entity="cluster/topic/group",
    unit="share",
)
def orphan_rate(run: Run) -> Iterator[Measured]:
    """Not proven: too many messages of a topic have no trace of a consumption by a group.

    Measured per topic and expected group: the share of judged messages that are orphans with evidence `inferred` or
    `unknown`.
    """
    for row, causes in _orphans(run):
        evidence = f"evidence: {row.inferred} inferred, {row.unknown} unknown"
        text = f"messages are orphans without proof ({evidence}; causes: {causes})"
        yield rate(_pair(row), row.inferred + row.unknown, row.judged, text, run.settings)


def _orphans(run: Run) -> Iterator[tuple[Row, str]]:
    """Judged messages per topic and group, the orphans among them by evidence, and their causes, the most frequent first."""
    pair = "cluster, topic, expected_group"
    evidences = (f"sum(orphaned_{each}) as {each}" for each in ("proven", "inferred", "unknown"))
    causes: dict[str, list[tuple[int, str]]] = defaultdict(list)
    columns = f"{pair}, cause, count(*) as messages"
    for row in _of_window(run, "orphaned_messages", columns, "counts_in_orphan_rate"):
        causes[_pair(row)].append((row.messages, row.cause))
    for row in _of_window(run, "orphan_rate", f"{pair}, sum(judged) as judged, {', '.join(evidences)}"):
        counts = sorted(causes[_pair(row)], reverse=True)
        yield row, ", ".join(f"{count} {cause}" for count, cause in counts) or "none"


def _pair(row: Row) -> str:
    return f"{row.cluster}/{row.topic}/{row.expected_group}"


@_messaging(
    "marts.trace_volume",
    "{value} of the records of {topic} are invalid",
    route="pipeline",
    limit="invalid_rate",
    entity="cluster/topic",
    unit="share",
)
def invalid_rate(run: Run) -> Iterator[Measured]:
    """Too many records of a trace topic match no layout.

    Measured per cluster and trace topic: the share of Invalid records.
    """
    invalid = "sum(if(record_type = 'Invalid', records, 0)) as invalid"
    for row in _of_window(run, "trace_volume", f"cluster, trace_topic, {invalid}, sum(records) as records"):
        entity = f"{row.cluster}/{row.trace_topic}"
        yield rate(entity, row.invalid, row.records, "records are Invalid", run.settings)


@_messaging(
    "marts.invalid_records",
    "clients wrote {value} record(s) of an unknown layout ({reason})",
    route="pipeline",
    entity="cluster/reason",
)
def unknown_layouts(run: Run) -> Iterator[Measured]:
    """Clients write records whose type or number of fields matches no known layout.

    Measured per reason: such records.
    """
    columns = "cluster, reason, sum(records) as records, min(client) as client"
    for row in _of_window(run, "invalid_records", columns, "is_unknown_layout"):
        yield Measured(
            f"{row.cluster}/{row.reason}", row.records, f"{row.records} records, some of {row.client}"
        )


@_messaging(
    "marts.topic_consumer_groups",
    "inferred from traces: {group} has consumed nothing for {value}",
    limit="group_silent_minutes",
    entity="cluster/group",
    unit="minutes",
)
def group_silent(run: Run) -> Iterator[Measured]:
    """Inferred from traces: an active consumer group has made no attempt for too long, although messages were sent to it.

    Measured per consumer group of the look-back: minutes since the first message after its last attempt on a known topic, 0 if
    each message that is older than the grace is explained, such as by its subscription.
    """
    grace = run.settings.limits.grace_seconds
    for row in _rows(
        run,
        f"""
        with active as (
          select cluster, consumer_group, watermark, max(last_attempt_at) as last_attempt_at
          from lake.marts.topic_consumer_groups join watermarks using (cluster)
          group by cluster, consumer_group, watermark
          having max(expected_to) > watermark
        ),
        -- A silent group has a row here for each message that was sent to it.
        unconsumed as (
          select
            active.cluster,
            consumer_group,
            cause,
            evidence,
            count(*) as messages,
            min(published_at) as first_published_at
          from active
          join lake.marts.orphaned_messages as orphaned
            on active.cluster = orphaned.cluster and active.consumer_group = orphaned.expected_group
          where
            -- Ordinary use does not explain a backlog while the group is silent.
            (counts_in_orphan_rate or cause = 'in_backlog')
            and published_at > last_attempt_at
            and published_at <= timestampadd(second, -{grace}, watermark)
          group by all
        ),
        waiting as (
          select
            cluster,
            consumer_group,
            sum(messages) as messages,
            min(first_published_at) as first_published_at,
            array_join(array_sort(collect_list(messages || ' ' || cause || ', ' || evidence)), '; ') as causes
          from unconsumed
          group by cluster, consumer_group
        )
        select
          cluster,
          consumer_group,
          messages,
          causes,
          timestampdiff(second, last_attempt_at, watermark) / 60 as minutes,
          timestampdiff(second, first_published_at, watermark) / 60 as waiting_minutes
        from active
        left join waiting using (cluster, consumer_group)
        """,
    ):
        text = f"last attempt {row.minutes:.0f} min before the watermark, "
        text += (
            f"messages sent to it since then: {row.messages} ({row.causes}), the first {row.waiting_minutes:.0f} min before it"
            if row.messages
            else "no message for it since"
        )
        yield Measured(f"{row.cluster}/{row.consumer_group}", row.waiting_minutes or 0.0, text)


@_messaging(
    "marts.slo_burn",
    "objective {objective} burns its error budget fast: {detail}",
    severity="critical",
    entity="cluster/objective",
)
def slo_burn_page(run: Run) -> Iterator[Measured]:
    """An objective burns its error budget so fast that it needs attention now.

    Measured per objective: burning window pairs of severity page.
    """
    return _burning(run, "page")


@_messaging(
    "marts.slo_burn",
    "objective {objective} burns its error budget slowly: {detail}",
    entity="cluster/objective",
)
def slo_burn_ticket(run: Run) -> Iterator[Measured]:
    """An objective burns its error budget faster than it may.

    Measured per objective: burning window pairs of severity ticket.
    """
    return _burning(run, "ticket")


@check(
    "marts",
    "the serving file could not be built: {detail}",
    kind="freshness",
    stage="marts",
    severity="warning",
)
def serving_file(run: Run) -> Iterator[Measured]:
    """The serving file of the published marts could not be built.

    Measured: 1 if the build failed, else 0. Readers without Spark then see an older publication.
    """
    failed = run.serving_error is not None
    yield Measured(None, float(failed), run.serving_error or "it has the published marts")


def _burning(run: Run, severity: str) -> Iterator[Measured]:
    for row in _rows(
        run,
        f"""
        select
          cluster,
          objective_name,
          count_if(is_burning) as burning,
          max_by(struct(long_seconds, long_burn, short_burn, threshold), long_burn / threshold) as worst
        from lake.marts.slo_burn join watermarks using (cluster)
        where severity = '{severity}'
        group by cluster, objective_name
        """,
    ):
        text = "no events"
        if row.worst and row.worst.long_burn is not None:
            text = (
                f"budget burns at {row.worst.long_burn:.1f} over {row.worst.long_seconds} s and at "
                f"{row.worst.short_burn or 0:.1f} over the short window; the threshold is {row.worst.threshold:.1f}"
            )
        yield Measured(f"{row.cluster}/{row.objective_name}", row.burning, text)


def _of_window(run: Run, mart: str, columns: str, condition: str = "true") -> list[Row]:
    """The columns of an hourly mart in the last `window_hours`, one row per combination of those that are no aggregates."""
    return _rows(
        run,
        f"""
        select {columns}
        from lake.marts.{mart} join watermarks using (cluster)
        where hour >= since and hour <= watermark and {condition}
        group by all
        """,
    )


def _rows(run: Run, query: str) -> list[Row]:
    """The rows of a query, which may read `watermarks` (cluster, watermark, since) of the clusters in the settings."""
    assert run.spark is not None
    configured = {cluster.name for cluster in run.settings.clusters}
    marks = {cluster: ms for cluster, ms in (run.watermarks or {}).items() if cluster in configured}
    run.spark.createDataFrame(list(marks.items()), "cluster string, ms bigint").selectExpr(
        "cluster",
        "timestamp_millis(ms) as watermark",
        f"timestampadd(hour, -{run.settings.checks.window_hours}, timestamp_millis(ms)) as since",
    ).createOrReplaceTempView("watermarks")
    try:
        return run.spark.sql(query).collect()
    finally:
        run.spark.catalog.dropTempView("watermarks")
