"""Any number of incremental runs, over records in any order, give the tables of one full refresh, and those that
docs/definitions.md says: for the day of `story.py`, and for histories that Hypothesis draws, each in a cluster of its own.
The full refresh comes after retention has dropped a part of the records, whose rows it keeps.

TRACE_SOAK_HISTORIES says how many histories: 1000 in `make soak`, 30 without it; TRACE_SOAK_SEED which.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import pytest
from pyspark.sql import Row

from spark_jobs.lake import tables
from spark_jobs.lake.offsets import Position, Queue
from spark_jobs.mart_build import branches, dbt
from spark_jobs.mart_build.inputs import Inputs, Published
from spark_jobs.mart_build.rebuild import Rebuild
from tests import lakes
from tests.dbt.events import Events
from tests.dbt.story import DAY, record_gap, whole_day
from tests.incremental import definitions
from tests.incremental.broadcast_histories import MODES, broadcast_histories
from tests.incremental.builds import build
from tests.incremental.cluster import EPOCH, Cluster, Rows, Subscription, name
from tests.incremental.coverage_histories import COVERAGE, HOUR, coverage_histories
from tests.incremental.delivery_histories import DEAD_LETTERS, OUTCOMES_BY_LOOK_UP, delivery_histories
from tests.incremental.facts import Facts, tags_of
from tests.incremental.histories import WATERMARK, History, drawn
from tests.incremental.idle import Idle, builds
from tests.incremental.offset_histories import (
    BEHIND,
    CAUSES_BY_LOOK_UP,
    CAUSES_BY_OFFSETS,
    offset_histories,
)
from tests.incremental.subscription_histories import SUBSCRIBED, subscription_histories
from tests.incremental.transaction_histories import transaction_histories
from tests.planning import without_data_tests
from tests.soak import IS_SOAK

BATCHES = 3 if IS_SOAK else 2
OF_PLACE = (
    *(
        "trace_topic",
        "broker",
        "queue_id",
        "epoch",
        "queue_offset",
        "record_index",
        "store_time",
        "born_host",
    ),
    *("decoder_version", "change_seq"),
)
# They never forget an hour, also where a replay took the last record away.
INDEX = "intermediate.int_identifier_hours"
CHECKS = "intermediate.int_message_checks"
ONLY_GROW = ("intermediate.int_message_hours", INDEX)
FACTS = ("fct_sends", "fct_consume_attempts", "fct_deliveries", "fct_messages", "fct_transactions")
# Retention then drops the records that were stored before, at the start of a day: a quarter of those of the histories.
KEPT_FROM = datetime(2026, 11, 20)
HISTORIES = int(os.environ.get("TRACE_SOAK_HISTORIES", "30"))
SEED = int(os.environ.get("TRACE_SOAK_SEED", "1"))

KEYS = {
    "fct_sends": ("msg_id", "offset_msg_id", "event_time"),
    "fct_consume_attempts": ("request_id", "msg_id"),
    "fct_deliveries": ("msg_id", "consumer_group", "broadcast_client"),
    "fct_messages": ("topic", "msg_id"),
    "fct_transactions": ("msg_id",),
    "dead_letters": ("topic", "msg_id", "consumer_group"),
    "orphaned_messages": ("topic", "msg_id", "expected_group"),
    "consumer_group_success": ("consumer_group", "topic", "hour"),
    "orphan_rate": ("topic", "expected_group", "hour"),
    "trace_volume": ("trace_topic", "record_type", "topic", "group_name", "hour"),
    "trace_coverage": ("side", "topic", "consumer_group", "hour"),
    "untraced_clients": ("side", "group_name"),
}


@dataclass(frozen=True)
class Built:
    """The rows of every table, as text, after the last of the batches, and after a full refresh when retention had dropped
    `dropped` of `records` records."""

    histories: dict[str, History]
    in_batches: dict[str, list[str]]
    full_refresh: dict[str, list[str]]
    records: int
    dropped: int


def dealt(rows: list[dict], number: int) -> list[list[dict]]:
    """The rows in batches: most trace messages in the order in which they were written, a fifth of them in any."""
    dice = random.Random(number)
    batches: list[list[dict]] = [[] for _ in range(BATCHES)]
    for offset, message in groupby(rows, key=lambda row: row["queue_offset"]):
        in_order = offset * BATCHES // len(rows)
        batches[dice.randrange(BATCHES) if dice.random() < 0.2 else in_order].extend(message)
    return batches


def contents(catalog) -> dict[str, list[str]]:
    return {table: lakes.rows(catalog, table) for table in branches.audited_tables(catalog)}


def replayed(histories: dict[str, History], change_seq: int) -> list[dict[str, Any]]:
    """Replay a fifth of the trace messages of earlier batches, in the histories; returns the records that are no more.

    One record is gone, is Invalid, is of another message, or there is one more.
    """
    dice = random.Random(SEED)
    replaced = []
    for cluster, history in histories.items():
        offsets = sorted({row["queue_offset"] for row in history.records if row["change_seq"] < change_seq})
        chosen = set(dice.sample(offsets, (len(offsets) + 4) // 5))
        old = [row for row in history.records if row["queue_offset"] in chosen]
        history.records = [row for row in history.records if row["queue_offset"] not in chosen]
        replaced += [row | {"cluster": cluster, "change_seq": change_seq} for row in old]
        for _, message in groupby(old, key=lambda row: row["queue_offset"]):
            *rest, last = ({**row, "change_seq": change_seq} for row in message)
            place = {name: last[name] for name in OF_PLACE}
            invalid = (
                dict.fromkeys(last) | place | {"record_type": "Invalid", "invalid_reason": "field_count:3"}
            )
            other = last | {"msg_id": f"m{dice.randrange(8)}"}
            one_more = other | {"record_index": last["record_index"] + 1}
            history.records += [*rest, *dice.choice([[], [invalid], [other], [last, one_more]])]
    return replaced


def replace_records(spark, replaced: list[dict[str, Any]]) -> None:
    """What a replay does to events and to its committed offsets, except the new records."""
    spark.createDataFrame(
        [Row(**{name: row[name] for name in tables.REPLACED_RECORDS.column_names}) for row in replaced],
        tables.REPLACED_RECORDS.schema,
    ).createOrReplaceTempView("replaced")
    same = " and ".join(f"t.{name} = s.{name}" for name in ("cluster", "queue_offset", "record_index"))
    spark.sql(f"merge into {tables.EVENTS.full_name} t using replaced s on {same} when matched then delete")
    spark.table("replaced").writeTo(tables.REPLACED_RECORDS.full_name).append()


def record_gaps(spark, histories: dict[str, History]) -> None:
    row = Row(*tables.INGEST_GAPS.column_names)
    gaps = [
        row(cluster, "RMQ_SYS_TRACE_TOPIC", "broker-a", 0, 0, 500, 600, start, end, WATERMARK, "run")
        for cluster, history in histories.items()
        for start, end in history.gaps
    ]
    if gaps:
        spark.createDataFrame(gaps, tables.INGEST_GAPS.schema).writeTo(tables.INGEST_GAPS.full_name).append()


def known_subscriptions(history: History) -> list[Subscription]:
    """As of the last run: without the last collection."""
    found = []
    *known, _ = history.answers or [None]
    for index, answers in enumerate(known):
        start, subscribed = answers.collection.at, answers.subscribed
        end = known[index + 1].collection.at if index + 1 < len(known) else None
        for (topic, group), expression in subscribed.items():
            tags, is_sql = tags_of(expression), ">" in expression
            found.append(Subscription(name(topic), group, tags, is_sql, start, end))
    return found


@pytest.fixture(scope="module")
def built(empty_lake, catalog, settings, state) -> Built:
    """All histories in batches, the watermarks moving, the last with a replay of earlier ones; then a full refresh."""
    spark = empty_lake
    of_hypothesis = {f"h{n:04}": history for n, history in enumerate(drawn(HISTORIES, BATCHES, SEED))}
    histories = of_hypothesis | offset_histories(BATCHES) | coverage_histories(BATCHES)
    histories |= delivery_histories(BATCHES) | broadcast_histories(BATCHES)
    histories |= subscription_histories(BATCHES) | transaction_histories()
    facts, complete_to = Facts(), None
    for number, story in enumerate(dealt(whole_day().rows, SEED), start=1):
        facts.save(catalog, histories, number - 1, complete_to)
        if number == BATCHES:
            replace_records(spark, replayed(of_hypothesis, number))
        rows = [row | {"change_seq": number} for row in story]
        rows += [
            row | {"cluster": cluster}
            for cluster, history in histories.items()
            for row in history.records
            if row["change_seq"] == number
        ]
        watermark = DAY * number / BATCHES
        # They end where the story does.
        complete_to = int((WATERMARK - EPOCH).total_seconds() - DAY + watermark) * 1000
        queues = {
            Queue(cluster, "RMQ_SYS_TRACE_TOPIC", "broker-a", 0): Position(1, complete_to=complete_to)
            for cluster in histories
        }
        Events(rows).write(spark, watermark, number, queues)
        if number == 2:
            record_gap(spark)
            record_gaps(spark, histories)
        with nullcontext() if number == BATCHES else without_data_tests():
            inputs = build(spark, catalog, settings, state)
        assert inputs.change_seq_from == (None if number == 1 else number - 1)
    # Asked at the watermark: it belongs to the next run.
    facts.save(catalog, histories, BATCHES, complete_to)
    if IS_SOAK:  # else tests/dbt/test_publication.py has it
        build(spark, catalog, settings, state)  # no hour is affected, so no row changes
    in_batches = contents(catalog)
    records = spark.table(tables.EVENTS.full_name).count()
    spark.sql(f"delete from {tables.EVENTS.full_name} where store_time < timestamp '{KEPT_FROM}'")
    dropped = records - spark.table(tables.EVENTS.full_name).count()
    build(spark, catalog, settings, state, kept_from=KEPT_FROM, full_refresh=True)
    return Built(histories, in_batches, contents(catalog), records, dropped)


@pytest.mark.timeout(3600)
def test_batches_equal_a_full_refresh_that_keeps_the_rows_of_dropped_records(built):
    assert len(built.histories) < built.dropped < built.records / 2
    different = {
        table: (Counter(rows) - Counter(before)) + (Counter(before) - Counter(rows))
        for table, rows in built.in_batches.items()
        for before in [built.full_refresh[table]]
    }
    # Of the dropped records, the index keeps the hours that the facts have.
    # Of the look-ups, those of messages are kept whose records events has.
    fewer = (*ONLY_GROW, CHECKS)
    assert {table: sorted(rows)[:5] for table, rows in different.items() if rows and table not in fewer} == {}
    for table in fewer:
        assert set(built.in_batches[table]) >= set(built.full_refresh[table]), table
    assert [table for table, rows in built.full_refresh.items() if not rows] == [
        "marts.slo_burn"
    ]  # no objective is stated


@pytest.mark.parametrize("fact", [*FACTS, "orphaned_messages"])
def test_the_index_has_every_row_of_the_facts_also_when_retention_has_dropped_records(
    built, empty_lake, fact
):
    rows = empty_lake.sql(
        f"select distinct xxhash64(cluster, msg_id) as identifier_hash, hour from lake.marts.{fact} where msg_id is not null"
    )
    assert rows.where(f"hour < timestamp '{KEPT_FROM}'").count() > 0
    assert (
        rows.join(empty_lake.table(f"lake.{INDEX}"), ["identifier_hash", "hour"], "left_anti").collect() == []
    )


FACT_AND_SUMS = (
    *("fct_deliveries", "orphaned_messages", "consumer_group_success"),
    *("consumer_group_success_daily", "int_identifier_hours"),
)
# A data test compares it with facts that are not rebuilt.
SUMS = ("reverse_orphans", "reverse_orphans_daily")


@pytest.mark.parametrize("rebuilt", [FACT_AND_SUMS, SUMS], ids=["fact", "sums"])
def test_a_rebuild_keeps_the_rows_of_dropped_records(built, empty_lake, catalog, settings, state, rebuilt):
    """Its steps compute what the full refresh has computed: a fact, its sums by hour and by day, and what a message became."""
    published = Published.of(settings)
    assert published is not None
    rebuild = Rebuild(
        empty_lake, catalog, settings, dbt.definitions(settings.limits, state), lambda: KEPT_FROM
    )
    begun = rebuild.begin(published)
    begun.rebuilt = [*rebuilt]
    for done in rebuild.run_steps(begun, rebuild.steps(begun), "test"):
        assert done.passed, (done.error, done.failures)
    for model in begun.rebuilt:
        table = f"{'intermediate' if model.startswith('int_') else 'marts'}.{model}"
        heads = branches.heads(catalog, table)
        assert heads[begun.branch] != heads["main"], table
        assert lakes.rows(catalog, table, begun.branch) == built.full_refresh[table], table
    rebuild.end()


def test_changed_sums_are_built_and_tested_after_retention(built, empty_lake, catalog, settings, state):
    """The second step of a build: its tests read what only the first step computes, for other messages."""
    published = Published.of(settings)
    assert published is not None
    inputs = replace(Inputs.over_all(published, settings.limits), kept_from=KEPT_FROM)
    with lakes.on_a_branch(empty_lake, catalog, settings) as branch:
        done = dbt.dbt("build", inputs, state, only=SUMS, tested=True)
        assert done.passed, (done.error, done.failures)
        assert {*SUMS, "message_facts_add_up"} <= {node.name for node in done.nodes}
        for model in SUMS:
            table = f"marts.{model}"
            assert lakes.rows(catalog, table, branch) == built.full_refresh[table], table


def inputs_of(history: History) -> Cluster:
    collections = [answers.collection for answers in history.answers[:-1]]
    return Cluster(history.records, WATERMARK, history.gaps, known_subscriptions(history), collections)


@pytest.fixture(scope="module")
def defined(built) -> dict[str, dict[str, Rows]]:
    """By cluster what the definitions say."""
    return {cluster: definitions.tables(inputs_of(history)) for cluster, history in built.histories.items()}


def test_the_histories_have_what_the_brokers_decide(defined):
    causes = Counter(
        row["cause"] for found in defined.values() for row in found["orphaned_messages"].values()
    )
    often = (
        "filtered",
        "filtered_or_lost",
        "in_backlog",
        "backlog_overdue",
        "untraced_consumer",
        "passed_untraced",
    )
    expected = (
        *("filter_unknown", "group_deleted", "dead_letter", "retrying", "skipped", "gone", "broadcasting"),
        *("half_uncommitted", "delayed_not_due"),
    )
    assert all(causes[cause] >= 3 for cause in often), causes
    assert all(causes[cause] >= 1 for cause in expected), causes


def tables_of(history: History, table: str) -> tuple[Rows, Rows]:
    """A table of a history by the definitions, at the first watermark and at the last."""
    first = Cluster(
        [record for record in history.records if record["change_seq"] == 1],
        WATERMARK - timedelta(seconds=DAY / 2),
        subscriptions=known_subscriptions(replace(history, answers=history.answers[:1] * 2)),
        collections=[history.answers[0].collection],
    )
    before, after = (definitions.tables(each)[table] for each in (first, inputs_of(history)))
    return before, after


@pytest.mark.parametrize("name", CAUSES_BY_OFFSETS)
def test_committed_offsets_change_the_cause_of_unconsumed_messages(name):
    """By the definitions. That the models follow is in the tests of all rows."""
    *_, expected = CAUSES_BY_OFFSETS[name]
    orphans = tables_of(offset_histories(2)[name], "orphaned_messages")
    for msg_id, (cause_before, cause_after) in expected.items():
        of_both = (rows["orders", msg_id, "stock"] for rows in orphans)
        assert [(row["cause"], row["evidence"]) for row in of_both] == [cause_before, cause_after], msg_id


@pytest.mark.parametrize(("name", "msg_id"), BEHIND)
def test_a_backlog_says_how_many_messages_the_group_is_behind(name, msg_id):
    """By the definitions, as above."""
    orphans = tables_of(offset_histories(2)[name], "orphaned_messages")
    found = tuple(rows["orders", msg_id, "stock"]["messages_behind"] for rows in orphans)
    assert found == BEHIND[name, msg_id]


@pytest.mark.parametrize("name", COVERAGE)
def test_what_the_brokers_count_in_an_hour_and_what_is_traced(name):
    """By the definitions; that the models follow is in the tests of all rows."""
    case = COVERAGE[name]
    rows = definitions.tables(inputs_of(coverage_histories(2)[f"coverage_{name}"]))["trace_coverage"]
    for key, expected in (
        (("producer", "orders", None, HOUR), case.producer),
        (("consumer", "orders", "stock", HOUR), case.consumer),
    ):
        row = rows.get(key)
        assert (row and (row["broker_messages"], row["traced"], row["unknown_reason"])) == expected, key


@pytest.mark.parametrize("name", CAUSES_BY_LOOK_UP)
def test_a_look_up_decides_on_the_cause_of_its_message(name):
    """By the definitions, as above."""
    expected = CAUSES_BY_LOOK_UP[name]
    history = offset_histories(2)[f"look_up_{name}"]
    of_both = (rows["orders", "before_both", "stock"] for rows in tables_of(history, "orphaned_messages"))
    assert [(row["cause"], row["evidence"]) for row in of_both] == [expected.before, expected.after]


@pytest.mark.parametrize("name", OUTCOMES_BY_LOOK_UP)
def test_a_look_up_decides_on_the_outcome_of_a_failed_delivery(name):
    """By the definitions, as above."""
    case = OUTCOMES_BY_LOOK_UP[name]
    history = delivery_histories(2)[f"delivery_{name}"]
    of_both = (rows.get(("failed", "stock", None)) for rows in tables_of(history, "fct_deliveries"))
    outcomes = [row and (row["outcome"], row["outcome_evidence"]) for row in of_both]
    assert outcomes == [case.before, case.after]


@pytest.mark.parametrize("name", DEAD_LETTERS)
def test_a_message_that_a_group_gave_up_is_a_dead_letter(name):
    """By the definitions, as above."""
    history = delivery_histories(2)[f"delivery_{name}"]
    of_both = (rows.get(("orders", "failed", "stock")) for rows in tables_of(history, "dead_letters"))
    assert tuple(row and row["evidence"] for row in of_both) == DEAD_LETTERS[name]


@pytest.mark.parametrize("name", MODES)
def test_the_brokers_decide_on_the_mode_of_a_group_from_the_first_fact_on(name):
    """By the definitions, as above."""
    history = broadcast_histories(2)[f"broadcast_{name}"]
    for rows, expected in zip(
        tables_of(history, "fct_deliveries"), (MODES[name].before, MODES[name].after), strict=True
    ):
        found = {msg_id: row["is_broadcast"] for (msg_id, *_), row in rows.items()}
        assert {msg_id: found.get(msg_id) for msg_id in expected} == expected


@pytest.mark.parametrize("name", SUBSCRIBED)
def test_a_group_that_subscribes_before_its_first_attempt_is_expected_or_reads_untraced(name):
    """By the definitions, as above."""
    history = subscription_histories(2)[f"subscribed_{name}"]
    for orphans, expected in zip(
        tables_of(history, "orphaned_messages"),
        (SUBSCRIBED[name].causes_before, SUBSCRIBED[name].causes),
        strict=True,
    ):
        found = {msg_id: (group, row["cause"]) for (_, msg_id, group), row in orphans.items()}
        assert {msg_id: found.get(msg_id) for msg_id in expected} == expected


@pytest.mark.parametrize("table", KEYS)
def test_every_row_is_what_the_definitions_say(built, defined, empty_lake, table):
    wrong = []
    found: dict[str, Rows] = {cluster: {} for cluster in defined}
    for row in empty_lake.table(f"lake.marts.{table}").collect():
        if row.cluster in found:
            found[row.cluster][tuple(row[name] for name in KEYS[table])] = row.asDict()
    for cluster, expected in defined.items():
        wrong += [
            f"{cluster} {key}: {difference}"
            for key in sorted(found[cluster].keys() | expected[table].keys(), key=str)
            if (difference := different(found[cluster].get(key), expected[table].get(key)))
        ]
    assert wrong == []
    assert sum(len(expected[table]) for expected in defined.values()) > len(defined) // 6


def different(row: dict[str, Any] | None, expected: dict[str, Any] | None) -> str:
    if row is None or expected is None:
        return f"the model has {row}, the definitions {expected}"
    return ", ".join(
        f"{name} is {row[name]}, by the definitions {value}"
        for name, value in expected.items()
        if row[name] != value
    )


@pytest.fixture(scope="module")
def idle(built, empty_lake, catalog, settings, state) -> list[Idle]:
    """Builds without new records after those of `built`; the first one has the facts of the last collection.

    The other tests read the tables of before, so this one is the last.
    """

    def again() -> None:
        with without_data_tests():
            build(empty_lake, catalog, settings, state, kept_from=KEPT_FROM)

    # 14: the hour is not judged yet. 20: it is. 70: and the next one not yet.
    return list(builds(catalog, settings, [14, 20, 70] if IS_SOAK else [14], again))


def test_a_build_that_is_not_due_changes_no_mart(idle):
    for each in idle:
        assert each.changed - each.why.keys() == set()
    first, *others = idle
    assert first.changed, "the facts of the last collection are seen"
    assert len(first.before.keys() - first.why.keys()) >= 10, first.why
    if others:
        hour, settled = others
        assert set(hour.why.values()) >= {"an hour has passed"}
        assert settled.changed, "states change with the watermark"
        assert len(settled.before.keys() - settled.why.keys()) >= 10, settled.why
