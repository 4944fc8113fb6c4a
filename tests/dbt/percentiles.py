"""What percentiles and histograms are, in plain Python."""

from __future__ import annotations

import math

import pytest
from pyspark.sql import Row

PER_MILLE = {"p50_ms": 500, "p90_ms": 900, "p95_ms": 950, "p99_ms": 990, "p999_ms": 999}


def nearest_rank(values: list[int], per_mille: int) -> int:
    return sorted(values)[math.ceil(len(values) * per_mille / 1000) - 1]


def assert_percentiles(row: Row, durations: list[int]) -> None:
    """Every percentile of the row is the durations' nearest rank: exact below 128 ms, within 1 % above; the maximum is exact."""
    assert row.max_ms == max(durations)
    for column, per_mille in PER_MILLE.items():
        exact = nearest_rank(durations, per_mille)
        if exact < 128:
            assert row[column] == exact, column
        else:
            assert row[column] == pytest.approx(exact, rel=0.01), column


def bucket_bounds(bucket: int) -> tuple[int, int]:
    """Lowest and highest ms of a bucket, as docs/definitions.md has it."""
    halvings = max(bucket // 128 - 1, 0)
    low = (bucket - halvings * 128) << halvings
    return low, low + (1 << halvings) - 1
