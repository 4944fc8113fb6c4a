"""Bodies decoded by Spark and by the model, as Arrow tables; which bodies differ, and the smallest that does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.settings import Limits
from spark_jobs.trace.decode import OUTPUT, decode
from tests.decode import model

STORED_MS = 1_795_000_000_000
LIMITS = Limits()
ROUNDS = 40

_CARRIED = {
    "cluster": ("prod", pa.string()),
    "trace_topic": ("RMQ_SYS_TRACE_TOPIC", pa.string()),
    "broker": ("broker-a", pa.string()),
    "queue_id": (3, pa.int32()),
    "epoch": (1, pa.int32()),
    "store_time": (STORED_MS * 1000, pa.timestamp("us", "UTC")),
    "born_host": ("10.1.2.3:40000", pa.string()),
}

# What a row takes over from its message, as Python reads it.
CARRIED = {name: pa.scalar(value, kind).as_py() for name, (value, kind) in _CARRIED.items()}

Failing = Callable[[Sequence[bytes]], list[int]]


def by_spark(spark: SparkSession, bodies: Sequence[bytes]) -> pa.Table:
    """All records of the bodies, in one job; `queue_offset` is the body's place in the list."""
    columns = {name: pa.array([value] * len(bodies), kind) for name, (value, kind) in _CARRIED.items()}
    columns |= {
        "queue_offset": pa.array(range(len(bodies)), pa.int64()),
        "body": pa.array(bodies, pa.binary()),
    }
    found = decode(spark.createDataFrame(pa.table(columns)), LIMITS).toArrow()
    return found.sort_by([("queue_offset", "ascending"), ("record_index", "ascending")])


def by_model(bodies: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    rows = [
        row | {"queue_offset": offset}
        for offset, body in enumerate(bodies)
        for row in model.records(body, STORED_MS, LIMITS)
    ]
    columns = []
    for field in schema:
        constant = _CARRIED.get(field.name, (None,))[0]
        values = [constant] * len(rows) if constant is not None else [row.get(field.name) for row in rows]
        columns.append(pa.array(values, field.type))
    return pa.table(columns, schema.names)


def differing(found: pa.Table, expected: pa.Table) -> list[int]:
    """Places of the bodies that the two tables do not agree on."""
    assert found.column_names == expected.column_names == OUTPUT
    if found.num_rows == expected.num_rows and all(
        one.combine_chunks().equals(other.combine_chunks())
        for one, other in zip(found.columns, expected.columns, strict=True)
    ):
        return []
    ours, theirs = by_body(found), by_body(expected)
    return sorted(at for at in ours.keys() | theirs.keys() if ours.get(at) != theirs.get(at))


def by_body(table: pa.Table) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        found.setdefault(row["queue_offset"], []).append(row)
    return found


def smallest(bodies: Sequence[bytes], failing: Failing) -> bytes:
    """A body that fails and of which little can be left out; what a round tries is one Spark job."""
    found = min((bodies[at] for at in failing(bodies)), key=len)
    size = max(1, len(found) // 2)
    for _ in range(ROUNDS):
        tries = [found[:at] + found[at + size :] for at in range(0, len(found), size)]
        if failed := failing(tries):
            found = min((tries[at] for at in failed), key=len)
        elif size == 1:
            break
        size = max(1, min(size, len(found)) // (1 if failed else 2))
    return found
