"""Erase by one rule from raw, events, ops and broker facts, in this order; each step is idempotent.

Raw and events get a commit even if nothing matches: a concurrent writer that has read what is erased then fails to
publish, plans again, and finds the rule and the rewritten messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.erasure.bodies import ERASED, rewritten
from spark_jobs.erasure.matching import COLUMNS, any_of, in_record, in_text
from spark_jobs.erasure.rules import Kind, Rule
from spark_jobs.lake import catalog, publish
from spark_jobs.lake.offsets import CHANGE_SEQ, OFFSETS, RUN_ID, read_offsets, to_json
from spark_jobs.lake.tables import (
    ALERTS,
    CHECK_RESULTS,
    CONSUMERS,
    EVENTS,
    GROUP_OFFSETS,
    GROUPS,
    MESSAGE_CHECKS,
    OBSERVATIONS,
    PRODUCERS,
    RAW,
    RECORD_KEY,
    REPLACED_RECORDS,
    SUBSCRIPTIONS,
    TOPIC_OFFSETS,
    TOPICS,
    TRACE_MESSAGE_KEY,
    Table,
)
from spark_jobs.maintenance import compaction, expiry
from spark_jobs.settings import Settings
from spark_jobs.trace.merge import parts_of, same_key


@dataclass(frozen=True)
class Erased:
    """The number of messages of raw that were rewritten, or would be, and of records removed from them."""

    messages: int
    records: int


@dataclass(frozen=True)
class Found:
    """What the lake contains that matches a rule.

    Attributes:
        raw: messages of raw that match, and the records that would be removed from them.
        events: number of rows of events.
        ops: number of rows of `lake.ops` and `lake.broker_facts`.
        groups: producer and consumer groups of those rows of events with their number of rows, largest first.
        first: minimum store time of those messages and rows, UTC, as text; None if there is none.
        last: maximum store time.
    """

    raw: Erased
    events: int
    ops: int
    groups: list[tuple[str, int]]
    first: str | None
    last: str | None


def look_up(spark: SparkSession, settings: Settings, rule: Rule, text: str) -> Found:
    """Count what an erasure by the rule would remove; nothing is changed."""
    raw, events, ops = left(spark, settings, rule, text)
    messages = rewritten(_containing(spark.table(RAW.full_name), rule, text), [rule]).where("is_rewritten")
    records = spark.table(EVENTS.full_name).where((F.col("cluster") == rule.cluster) & in_record([rule]))
    times = messages.select("store_time").union(records.select("store_time"))
    text_of = [F.date_format(end("store_time"), "yyyy-MM-dd HH:mm:ss") for end in (F.min, F.max)]
    first, last = times.agg(*text_of).collect()[0]
    groups = records.groupBy(F.coalesce("group_name", F.lit("(none)")).alias("group")).count()
    by_size = groups.orderBy(F.desc("count"), "group").collect()
    return Found(raw, events, ops, [(row["group"], row["count"]) for row in by_size], first, last)


def erase_from_raw(
    spark: SparkSession, settings: Settings, rule: Rule, text: str | None, run_id: str, dry_run: bool = False
) -> Erased:
    """Rewrite the messages of raw that match the rule; rows and committed offsets are kept.

    Without the text all messages of the cluster are compared with the rule, which takes longer.

    Raises:
        publish.PublishConflictError: another writer published first.
        publish.AuditError: the branch still contains a match, or has a different number of rows.
    """
    committed = read_offsets(spark, settings, RAW)
    if committed.head is None:
        return Erased(0, 0)
    before = publish.at_snapshot(spark, RAW, committed.head)
    found = rewritten(_containing(before, rule, text), [rule]).where("is_rewritten").persist()
    try:
        messages, records = found.agg(F.count("*"), F.coalesce(F.sum("erased"), F.lit(0))).collect()[0]
        if dry_run:
            return Erased(messages, records)
        properties = {OFFSETS: to_json(committed.positions), RUN_ID: run_id}
        with publish.write_audit_publish(spark, RAW, "erase", committed.head) as branch:
            if messages:
                same = same_key(parts_of(found), TRACE_MESSAGE_KEY)
                update = "when matched then update set *"
                publish.merge_into_branch(
                    found.select(*RAW.column_names), RAW, branch, same, update, properties
                )
                _audit(publish.on_branch(spark, RAW, branch), before.count(), rule, text)
            else:
                publish.append(before.limit(0), RAW, branch, properties)
        return Erased(messages, records)
    finally:
        found.unpersist()


def rewritten_messages(spark: SparkSession, rule: Rule) -> DataFrame:
    """The messages of raw that an erasure of the cluster has rewritten: events may have older records of them."""
    is_rewritten = F.try_element_at("properties", F.lit(ERASED)).isNotNull()
    return spark.table(RAW.full_name).where((F.col("cluster") == rule.cluster) & is_rewritten)


def erase_from_events(
    spark: SparkSession, settings: Settings, rule: Rule, run_id: str, dry_run: bool = False
) -> int:
    """Delete the records that match the rule; return their number. Rows of unreadable bodies are kept without the bytes.

    After a replay of the rewritten messages these are the records whose messages are no longer in raw, or without a time.

    Raises:
        publish.PublishConflictError: another writer published first.
    """
    events = read_offsets(spark, settings, EVENTS)
    if events.head is None:
        return 0
    before = publish.at_snapshot(spark, EVENTS, events.head)
    found = before.where(F.col("cluster") == rule.cluster).where(in_record([rule]))
    count = found.count()
    if dry_run:
        return count
    change_seq = events.change_seq + (1 if count else 0)
    properties = {OFFSETS: to_json(events.positions), CHANGE_SEQ: str(change_seq), RUN_ID: run_id}
    with publish.write_audit_publish(spark, EVENTS, "erase", events.head) as branch:
        if count:
            actions = (
                "when matched and t.invalid_reason like 'body_error:%' then update set t.raw = cast('' as binary) "
                "when matched then delete"
            )
            same = same_key(parts_of(found), RECORD_KEY)
            publish.merge_into_branch(found, EVENTS, branch, same, actions, properties)
        else:
            publish.append(before.limit(0), EVENTS, branch, properties)
    return count


def erase_from_ops(spark: SparkSession, rule: Rule, dry_run: bool = False) -> int:
    """Delete the cluster's rows of `lake.ops` and `lake.broker_facts` that match; return their number.

    See `_columns_of_ops`. A row of observations stays; the group is removed from the names of what was not answered.
    """
    count = _erase_from_observations(spark, rule, dry_run) if rule.kind is Kind.GROUP else 0
    for table, name, condition in _columns_of_ops(rule):
        found = spark.table(table.full_name).where(condition).select(name).collect()
        count += len(found)
        if found and not dry_run:
            of_cluster = "cluster = :cluster and " if "cluster" in table.column_names else ""
            publish.sql_with_retry(
                spark,
                f"delete from {table.full_name} where {of_cluster}array_contains(:named, {name})",
                {"cluster": rule.cluster, "named": sorted({row[0] for row in found})},
            )
    return count


def _erase_from_observations(spark: SparkSession, rule: Rule, dry_run: bool) -> int:
    names = F.explode(F.flatten("requests.unanswered"))
    of_cluster = spark.table(OBSERVATIONS.full_name).where(F.col("cluster") == rule.cluster)
    found = of_cluster.select(names.alias("name")).where(in_text([rule], rule.kind, _group("name"))).collect()
    if found and not dry_run:
        kept = "filter(r.unanswered, name -> not array_contains(:named, name))"
        fields = ("code", "name", "answered", "absent", "refused", "unsupported", "timed_out", "failed")
        request = ", ".join(f"'{field}', r.{field}" for field in fields)
        publish.sql_with_retry(
            spark,
            f"update {OBSERVATIONS.full_name} set requests = "
            f"transform(requests, r -> named_struct({request}, 'unanswered', {kept})) where cluster = :cluster "
            "and arrays_overlap(flatten(requests.unanswered), :named)",
            {"cluster": rule.cluster, "named": sorted({row["name"] for row in found})},
        )
    return len(found)


def _is_of_group(topic: str) -> Column:
    """Whether a topic is the retry or dead-letter topic of a group."""
    return F.col(topic).startswith("%RETRY%") | F.col(topic).startswith("%DLQ%")


def _group(name: str) -> Column:
    """The name of a group, or of its retry or dead-letter topic, without the topic behind `+` (enableRetryTopicV2)."""
    return F.when(_is_of_group(name), F.substring_index(name, "+", 1)).otherwise(F.col(name))


def _columns_of_ops(rule: Rule) -> list[tuple[Table, str, Column]]:
    """Where tables of `lake.ops` and `lake.broker_facts` may contain it: table, column, and the condition of the rows.

    Broker facts contain groups, and their retry and dead-letter topics; the checks of messages also contain their ids.
    Replaced records contain it in the columns of its kind. Check results and alerts contain only groups, as the last part of
    their entity: `<cluster>/<group>`, `<cluster>/<topic>/<group>`.
    """
    found = [
        (REPLACED_RECORDS, name, (F.col("cluster") == rule.cluster) & in_text([rule], rule.kind, F.col(name)))
        for name in COLUMNS[rule.kind]
        if name in REPLACED_RECORDS.column_names
    ]
    if rule.kind is Kind.GROUP:
        of_cluster = F.startswith("entity", F.lit(f"{rule.cluster}/"))
        named = in_text([rule], rule.kind, F.substring_index("entity", "/", -1))
        found += [(table, "entity", of_cluster & named) for table in (CHECK_RESULTS, ALERTS)]
        facts = [
            (table, "group_name") for table in (GROUPS, CONSUMERS, SUBSCRIPTIONS, GROUP_OFFSETS, PRODUCERS)
        ]
        facts += [
            (MESSAGE_CHECKS, "consumer_group"),
            (PRODUCERS, "trace_of"),
            (TOPICS, "of_group"),
            (TOPIC_OFFSETS, "topic"),
        ]
        for table, name in facts:
            is_group = _is_of_group(name) if name == "topic" else F.lit(True)
            matches = is_group & in_text([rule], rule.kind, _group(name))
            found.append((table, name, (F.col("cluster") == rule.cluster) & matches))
    if rule.kind is Kind.MSG_ID:
        is_message = (F.col("cluster") == rule.cluster) & in_text([rule], rule.kind, F.col("msg_id"))
        found.append((MESSAGE_CHECKS, "msg_id", is_message))
    return found


def left(spark: SparkSession, settings: Settings, rule: Rule, text: str | None) -> tuple[Erased, int, int]:
    """What main of raw, events and ops still contains: messages and records, rows, rows."""
    return (
        erase_from_raw(spark, settings, rule, text, "", dry_run=True),
        erase_from_events(spark, settings, rule, "", dry_run=True),
        erase_from_ops(spark, rule, dry_run=True),
    )


def forget(
    spark: SparkSession, settings: Settings, tables: list[str], now: datetime, run_id: str
) -> list[str]:
    """Expire every snapshot except the head of main, and rewrite the manifests, which contain bounds of deleted files.

    Returns:
        `<table>: <branch>` of each branch that still references old data.
    """
    referencing = []
    for table in tables:
        metadata = catalog.lake(settings).load_table(table)
        referencing += [f"{table}: {name}" for name in metadata.refs() if name != "main"]
        if metadata.current_snapshot() is not None:
            compaction.rewrite_manifests(spark, settings, table, run_id)
            expiry.expire_snapshots(spark, table, now, keep=1)
    return referencing


def _containing(messages: DataFrame, rule: Rule, text: str | None) -> DataFrame:
    """Messages of the rule's cluster that contain the text anywhere: a cheap filter before the exact match."""
    if text is None:
        return messages.where(F.col("cluster") == rule.cluster)
    contains = (
        F.contains("body", F.lit(text.encode())),
        F.contains("keys", F.lit(text)),
        F.exists(F.map_values("properties"), lambda value: F.contains(value, F.lit(text))),
    )
    contains_any = any_of(*(F.coalesce(each, F.lit(False)) for each in contains))
    return messages.where((F.col("cluster") == rule.cluster) & contains_any)


def _audit(written: DataFrame, rows: int, rule: Rule, text: str | None) -> None:
    left = rewritten(_containing(written, rule, text), [rule]).where("is_rewritten").count()
    found = written.count()
    if left or found != rows:
        raise publish.AuditError(
            f"{RAW.full_name}: after the erasure {left} messages on the branch still match the rule, and "
            f"{found} rows exist instead of {rows}. Nothing was published; this is a bug in the program"
        )
