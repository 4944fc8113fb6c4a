"""What the other tests rest on is not blind, and the benchmark's decoder does the work that it is raced for."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from benchmarks.decode import bodies, python_udf
from spark_jobs.trace.decode import OUTPUT
from spark_jobs.trace.layouts import LAYOUTS
from tests.decode import drawn, model
from tests.decode.compare import LIMITS, STORED_MS
from tests.decode.conservation import lost
from tests.decode.test_clients import CLIENTS

Rows = list[dict[str, Any]]


def by_the_model(body: bytes) -> Rows:
    rows = [dict.fromkeys(OUTPUT) | row for row in model.records(body, STORED_MS, LIMITS)]
    for row in rows:
        if row["event_time"] is not None:  # as Arrow gives it
            row["event_time"] = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["event_time"])
    return rows


def a_body() -> bytes:
    """A record of each layout, and a bad one."""
    chance, values = random.Random(11), drawn.Values()
    return b"Pub\x01torn\x02" + b"".join(
        drawn.record(layout, values.of(layout, chance)) for layout in LAYOUTS
    )


def changed(place: int, column: str, value: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [row | {column: value} if at == place else row for at, row in enumerate(rows)]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: rows[1:],
        lambda rows: rows[:-1],
        lambda rows: rows[:5] + rows[6:],
        lambda rows: rows[:5] + rows[4:],
        lambda rows: [*rows[:3], rows[4], rows[3], *rows[5:]],
        lambda rows: [],
        changed(0, "raw", b"Pub\x01tor"),
        changed(0, "topic", "orders"),
        changed(3, "keys", "another"),
        changed(3, "cost_ms", None),
        changed(3, "layout", "pub_13"),
        changed(3, "record_type", "Recall"),
        changed(3, "event_time", None),
        changed(6, "record_index", 7),
        changed(9, "topic", "orders"),
    ],
)
def test_what_is_lost_or_changed_is_seen(spoil: Callable[[Rows], Rows]):
    body = a_body()
    assert lost(body, by_the_model(body)) is None
    assert lost(body, spoil(by_the_model(body)))


def test_the_benchmarks_decoder_gives_what_the_model_gives():
    """The plain Python that `make bench-decode` races, on bodies of that benchmark and of every client."""
    chance = random.Random(7)
    written = ["".join(bodies._records(chance, 15)).encode() for _ in range(300)]
    glued = [each.body.replace("|", "\x01").replace("¶", "\x02").encode() for each in CLIENTS]
    for body in (*written, *glued, b"Pub\x01\xff\x02\xfe"):
        found = [dict(zip(python_udf._RECORD_KEY, row, strict=True)) for row in python_udf.decode(body)]
        expected = [as_udf(row) for row in model.records(body, STORED_MS, LIMITS)]
        assert [
            {name: value for name, value in row.items() if value is not None} for row in found
        ] == expected


def as_udf(row: dict[str, Any]) -> dict[str, Any]:
    """The UDF leaves out what needs the time of the message."""
    kept = {name: value for name, value in row.items() if name not in ("event_time", "event_time_suspect")}
    return kept | ({"event_ms": row["event_time"] // 1000} if "event_time" in row else {})
