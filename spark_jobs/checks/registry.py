"""Every check, in one table. `make checks` generates docs/checks.md from it."""

from __future__ import annotations

from collections.abc import Iterator

from spark_jobs.checks import build, installation, marts, records, service
from spark_jobs.checks.check import QUEUE, Check, Measured, Run, Stage
from spark_jobs.settings import Settings


def _told(run: Run) -> Iterator[Measured]:
    """Measured elsewhere: by Airflow's callbacks, and by the watchdog for itself."""
    return iter(())


_RAW, _EVENTS = "raw.trace_messages", "events.trace_records"

CHECKS = (
    Check(
        *("offsets_contiguous", _RAW, "integrity", "critical", "pipeline", "merge"),
        "an offset of a queue is missing and not booked in `ops.ingest_gaps`, or is there twice",
        records.offsets_contiguous,
        title="{value} offset(s) of {entity} are missing or stored twice in raw",
        entity=QUEUE,
    ),
    Check(
        *("raw_offsets_match_data", _RAW, "integrity", "critical", "pipeline", "merge"),
        "the position that the snapshot carries is not where the queue's data and gaps end",
        records.raw_offsets_match_data,
        title="the committed offset of {entity} in raw is {value} away from its data",
        entity=QUEUE,
    ),
    Check(
        *("events_offsets_match_data", _EVENTS, "integrity", "critical", "pipeline", "merge"),
        "there are records beyond the position that the snapshot carries, or it is beyond that of raw",
        records.events_offsets_match_data,
        title="the committed offset of {entity} in events is {value} away from its data",
        entity=QUEUE,
    ),
    Check(
        *("raw_is_in_events", _EVENTS, "integrity", "critical", "pipeline", "merge"),
        "events has fewer records of a merged message than its body holds, one twice, or those of a message that raw has not",
        records.raw_is_in_events,
        title="{value} message(s) of {entity} are not the same in raw and in events",
        entity=QUEUE,
    ),
    Check(
        *("ingest_gaps", "ops.ingest_gaps", "freshness", "critical", "pipeline", "merge"),
        "the broker deleted messages of a queue before they were read",
        records.ingest_gaps,
        title="the broker deleted {value} unread message(s) of {entity}",
        entity=QUEUE,
    ),
    Check(
        *("body_errors", _RAW, "messaging", "warning", "pipeline", "merge"),
        "a trace message's body could not be read",
        records.body_errors,
        title="the bodies of {value} message(s) of {topic} could not be read",
        entity="cluster/topic",
    ),
    Check(
        *("invalid_rate", _EVENTS, "messaging", "warning", "pipeline", "merge"),
        "too large a share of a trace topic's records is Invalid",
        records.invalid_rate,
        "invalid_rate",
        title="{value} of the records of {topic} are invalid",
        entity="cluster/topic",
        unit="share",
    ),
    Check(
        *("dbt_tests", "marts", "integrity", "critical", "pipeline", "gate"),
        "a model could not be built, or a test with severity `error` fails",
        build.dbt_tests,
        title="the marts are not published: dbt found {value} failure(s) in {entity}",
    ),
    Check(
        *("row_count_drop", "marts", "integrity", "critical", "pipeline", "gate"),
        "a fact was built with fewer rows than are published, by more than was booked as taken away",
        build.row_count_drop,
        "row_count_drop",
        title="the marts are not published: {entity} was built with {value} of its rows gone",
        unit="share",
    ),
    Check(
        *("dbt_warnings", "marts", "messaging", "warning", "pipeline", "gate"),
        "a test with severity `warn` fails",
        build.dbt_warnings,
        title="dbt warns of {value} row(s) in {entity}",
    ),
    Check(
        *("history_tests", "marts", "integrity", "critical", "pipeline", "history"),
        "a test of the published marts fails over all their rows",
        build.dbt_tests,
        title="{value} published row(s) fail the dbt test {entity}",
    ),
    Check(
        *("unknown_layouts", "marts.invalid_records", "messaging", "warning", "pipeline", "marts"),
        "clients write records of a type or a number of fields that no known layout has",
        marts.unknown_layouts,
        title="clients wrote {value} record(s) of an unknown layout ({reason})",
        entity="cluster/reason",
    ),
    Check(
        *("completeness", "marts.trace_completeness", "messaging", "warning", "messaging", "marts"),
        "too small a share of a cluster's consumer records arrived",
        marts.completeness,
        "completeness",
        "below",
        title="only {value} of the consumer records arrived",
        entity="cluster",
        unit="share",
    ),
    Check(
        *("clock_skew", "marts.clock_skew", "messaging", "warning", "messaging", "marts"),
        "a client machine's clock is too far ahead, or its latencies are too far below zero",
        marts.clock_skew,
        "clock_skew_ms",
        title="the clock of {host} is wrong by {value}",
        entity="cluster/host",
        unit="ms",
    ),
    Check(
        *("duplicate_rate", "marts.duplicates", "messaging", "warning", "messaging", "marts"),
        "too large a share of a group's deliveries has duplicates",
        marts.duplicate_rate,
        "duplicate_rate",
        title="{value} of the deliveries to {group} have duplicates",
        entity="cluster/group",
        unit="share",
    ),
    Check(
        *("orphan_rate", "marts.orphan_rate", "messaging", "warning", "messaging", "marts"),
        "inferred from traces: too large a share of a topic's messages seems not to be consumed by a group",
        marts.orphan_rate,
        "orphan_rate",
        title="inferred from traces: {value} of the messages of {topic} were not consumed by {group}",
        entity="cluster/topic/group",
        unit="share",
    ),
    Check(
        *("group_silent", "marts.fct_consume_attempts", "messaging", "critical", "messaging", "marts"),
        "a consumer group of the look-back has made no attempt for so long, though its topics had sends",
        marts.group_silent,
        "group_silent_minutes",
        title="{group} has consumed nothing for {value}",
        entity="cluster/group",
        unit="minutes",
    ),
    Check(
        *("slo_burn_page", "marts.slo_burn", "messaging", "critical", "messaging", "marts"),
        "an objective's error budget burns so fast that someone must look now",
        marts.slo_burn_page,
        title="objective {objective} burns its error budget fast: {detail}",
        entity="cluster/objective",
    ),
    Check(
        *("slo_burn_ticket", "marts.slo_burn", "messaging", "warning", "messaging", "marts"),
        "an objective's error budget burns so that it will not last",
        marts.slo_burn_ticket,
        title="objective {objective} burns its error budget slowly: {detail}",
        entity="cluster/objective",
    ),
    Check(
        *("ingest_silent", _RAW, "freshness", "critical", "pipeline", "watchdog"),
        "nothing was published to raw or to events for so long",
        service.ingest_silent,
        "ingest_silent_minutes",
        title="no commit to raw or events for {value}",
        unit="minutes",
    ),
    Check(
        *("marts_silent", "marts", "freshness", "critical", "pipeline", "watchdog"),
        "no marts were published for so long",
        service.marts_silent,
        "marts_silent_minutes",
        title="no marts were published for {value}",
        unit="minutes",
    ),
    Check(
        *("freshness_raw", _RAW, "freshness", "critical", "pipeline", "watchdog"),
        "a queue of a cluster has not been read completely for so long",
        service.freshness_raw,
        "freshness_raw_minutes",
        title="the trace topics were last read completely {value} ago",
        entity="cluster",
        unit="minutes",
    ),
    Check(
        *("freshness_events", _EVENTS, "freshness", "critical", "pipeline", "watchdog"),
        "what was read of a cluster has not been merged for so long",
        service.freshness_events,
        "freshness_events_minutes",
        title="trace messages were last merged completely {value} ago",
        entity="cluster",
        unit="minutes",
    ),
    Check(
        *("freshness_marts", "marts", "freshness", "warning", "pipeline", "watchdog"),
        "the watermark of the published marts is so long ago",
        service.freshness_marts,
        "freshness_marts_minutes",
        title="the published marts end {value} ago",
        entity="cluster",
        unit="minutes",
    ),
    Check(
        *("lag", _RAW, "freshness", "warning", "pipeline", "brokers"),
        "too many messages of a queue wait to be read, or a cluster's brokers cannot be asked",
        service.lag,
        "lag_messages",
        title="{value} messages wait on {entity}",
        entity=QUEUE,
    ),
    Check(
        *("retention_headroom", _RAW, "freshness", "critical", "pipeline", "brokers"),
        "the broker will soon delete messages of a queue that were not read",
        service.retention_headroom,
        "retention_headroom_hours",
        "below",
        title="the broker deletes unread messages of {entity} in {value}",
        entity=QUEUE,
        unit="hours",
    ),
    installation.DISK_SPACE,
    installation.WATCHDOG_SILENT,
    installation.AIRFLOW_COMPONENT,
    Check(
        *("watchdog", "ops.check_results", "freshness", "critical", "pipeline", "airflow"),
        "the watchdog could not make its checks, or not book them",
        _told,
        title="the watchdog could not do its work: {detail}",
    ),
    Check(
        *("task_failed", "airflow", "freshness", "critical", "pipeline", "airflow"),
        "a task of a DAG has failed, and was not cleared since",
        _told,
        title="task {entity} failed",
    ),
)

BY_NAME = {check.name: check for check in CHECKS}


def of_stage(settings: Settings, *stages: Stage) -> list[Check]:
    """The checks of these stages.

    Raises:
        ValueError: the settings name an unknown check.
    """
    named = {*settings.checks.off, *settings.checks.severity}
    named |= {key.partition(":")[0] for key in settings.checks.of_entity}
    if unknown := sorted(named - set(BY_NAME)):
        raise ValueError(f"the settings (checks) name {', '.join(unknown)}; there are {', '.join(BY_NAME)}")
    return [check for check in CHECKS if check.stage in stages and check.name not in settings.checks.off]
