"""The broker facts of all histories, as collections record them, in one commit per table.

A collection of a job commits the facts of one cluster (`store.save`); for a hundred clusters that takes as long as the builds.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow

from spark_jobs.broker_facts.changes import Current, Found, changes
from spark_jobs.broker_facts.fact_tables import FACT_TABLES, FactTable, Key
from spark_jobs.lake import tables
from spark_jobs.settings import BrokerFacts
from tests.incremental.histories import GROUPS, Answers, History

LIMITS = BrokerFacts()
RowsOfTables = dict[tables.Table, list[dict[str, Any]]]


class Facts:
    """The recorded facts of all clusters: by table and cluster, every row with the time from which and to which it is valid."""

    def __init__(self) -> None:
        self._rows: dict[tables.Table, dict[str, list[dict[str, Any]]]] = defaultdict(
            lambda: defaultdict(list)
        )

    def save(
        self, catalog: Catalog, histories: dict[str, History], number: int, watermark_ms: int | None
    ) -> None:
        """Record the collections of this number, as they were asked after an extraction that was complete up to the watermark."""
        asked = {
            cluster: history.answers[number] for cluster, history in histories.items() if history.answers
        }
        watermark = None if watermark_ms is None else datetime.fromtimestamp(watermark_ms / 1000, UTC)
        added: RowsOfTables = {tables.OBSERVATIONS: [], tables.MESSAGE_CHECKS: []}
        for cluster, answers in asked.items():
            at = answers.collection.at.replace(tzinfo=UTC)
            rows = subscription_rows(answers) | offset_rows(answers) | client_rows(answers)
            for facts in FACT_TABLES:
                self._observe(facts, cluster, at, rows.get(facts.table, []))
            same = {"cluster": cluster, "run_id": "run"}
            answered = [{"code": code, "answered": 1, "unanswered": []} for code in (43, 202)]
            observation = {"broker": "broker-a", "observed_at": at, "reached": True, "requests": answered}
            added[tables.OBSERVATIONS].append(observation | same | {"watermark": watermark})
            added[tables.MESSAGE_CHECKS] += [row | same for row in check_rows(answers)]
        for facts in FACT_TABLES:
            of_clusters = self._rows[facts.table].values()
            table = catalog.load_table(facts.table.name)
            write = table.overwrite if table.current_snapshot() else table.append
            write(_arrow(table, [row for rows in of_clusters for row in rows]))
        for kind, new in added.items():
            table = catalog.load_table(kind.name)
            table.append(_arrow(table, new))

    def _observe(self, facts: FactTable, cluster: str, at: datetime, rows: list[dict[str, Any]]) -> None:
        """What a collection ends and adds in a table; a fact that is in no row is gone."""
        current = {
            facts.key_of(row): row for row in self._rows[facts.table][cluster] if row["valid_to"] is None
        }
        done = changes(
            facts,
            {key: Current(row["digest"], row["valid_from"]) for key, row in current.items()},
            lambda keys: {key: current[key] for key in keys},
            Found(rows, _always),
            at,
            timedelta(minutes=LIMITS.offsets_minutes),
            LIMITS.jump_messages,
        )
        for key in done.ended:
            current[key]["valid_to"] = at
        same = {"cluster": cluster, "valid_from": at, "valid_to": None, "run_id": "run"}
        self._rows[facts.table][cluster] += [row | same for row in done.added]


def _always(key: Key) -> bool:
    return True


def _arrow(table: Any, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema_to_pyarrow(table.schema(), include_field_ids=False))


def subscription_rows(answers: Answers) -> RowsOfTables:
    """The rows of the subscriptions."""
    rows = [
        {
            "broker": "broker-a",
            "group_name": group,
            "topic": topic,
            "expression_type": "SQL92" if ">" in expression else "TAG",
            "expression": expression,
            "tags": sorted(tags_of(expression)),
            "class_filter": False,
        }
        for (topic, group), expression in answers.subscribed.items()
    ]
    return {tables.SUBSCRIPTIONS: rows}


def check_rows(answers: Answers) -> list[dict[str, Any]]:
    """The rows of the messages that were looked up."""
    return [
        dict.fromkeys(tables.MESSAGE_CHECKS.column_names)
        | {
            "broker": "broker-a",
            "topic": check.topic,
            "msg_id": check.msg_id,
            "consumer_group": check.group,
            "checked_at": answers.collection.at.replace(tzinfo=UTC),
            "is_stored": check.is_stored,
            "held_as": check.held_as,
            "is_of_batch": check.is_of_batch,
            "due_at": check.due_at and check.due_at.replace(tzinfo=UTC),
            "queue_id": None if check.queue_offset is None else 0,
            "queue_offset": check.queue_offset,
            "stored_at": check.stored_at and check.stored_at.replace(tzinfo=UTC),
            "state": check.state,
        }
        for check in answers.collection.checks
    ]


def offset_rows(answers: Answers) -> RowsOfTables:
    """The rows of groups and offsets; each topic has one queue."""
    asked = answers.collection
    queue = {"queue_id": 0, "min_offset": 0, "last_stored_at": None}
    return {
        tables.GROUPS: [
            dict.fromkeys(tables.GROUPS.column_names) | {"broker": "broker-a", "group_name": group}
            for group in sorted(asked.groups)
        ],
        tables.TOPIC_OFFSETS: [
            {"broker": "broker-a", "topic": topic, "queues": [queue | {"max_offset": end}]}
            for topic, end in asked.ends.items()
        ],
        tables.GROUP_OFFSETS: [
            {
                "broker": "broker-a",
                "group_name": group,
                "topic": topic,
                "queues": [
                    {
                        "queue_id": 0,
                        "consumer_offset": offset,
                        "broker_offset": asked.ends[topic],
                        "last_consumed_at": None,
                        "pull_offset": asked.pull_offsets.get((topic, group)),
                    }
                ],
            }
            for (topic, group), offset in asked.offsets.items()
        ],
    }


def client_rows(answers: Answers) -> RowsOfTables:
    """The rows of connected clients, of groups without one, and of the producers that write the trace of a group."""
    asked = answers.collection
    clients = {"broker": "broker-a", "languages": ["JAVA"], "versions": ["5.5.0"], "client_ids": []}
    clients |= {"connections": 1}
    producers = [
        {"group_name": group, "connections": 2 if group in asked.two_clients else 1}
        for side, group in sorted(asked.connected)
        if side == "producer"
    ]
    producers += [
        {"group_name": f"_INNER_TRACE_PRODUCER-{group}", "trace_of": group, "trace_role": role}
        for side, group in sorted(asked.tracing)
        for role in ["PRODUCE" if side == "producer" else "CONSUME"]
    ]
    consumers = [
        {
            "group_name": group,
            "online": True,
            "message_model": "BROADCASTING" if group in asked.broadcasting else "CLUSTERING",
            "connections": 2 if group in asked.two_clients else 1,
        }
        for group in sorted(asked.online)
    ]
    consumers += [{"group_name": group, "online": False} for group in sorted(set(GROUPS) - asked.online)]
    return {
        tables.PRODUCERS: [dict.fromkeys(tables.PRODUCERS.column_names) | clients | row for row in producers],
        tables.CONSUMERS: [dict.fromkeys(tables.CONSUMERS.column_names) | clients | row for row in consumers],
    }


def tags_of(expression: str) -> tuple[str, ...]:
    return () if expression == "*" or ">" in expression else tuple(expression.split(" || "))
