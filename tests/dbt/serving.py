"""Serving files of tests, and their rows."""

from __future__ import annotations

from collections import Counter

import duckdb

from spark_jobs.serving.contents import current_file
from spark_jobs.settings import Serving, Settings


def with_limit(settings: Settings, rows: int, keep_minutes: float = 60) -> Settings:
    return settings.model_copy(update={"serving": Serving(copied_rows=rows, keep_minutes=keep_minutes)})


def comparable(row) -> str:
    """A row in an order of map entries and with types that do not depend on the engine."""

    def same(value):
        if isinstance(value, dict):
            return sorted(value.items())
        return bytes(value) if isinstance(value, bytearray) else value

    return repr(tuple(map(same, row)))


def rows_in_duckdb(settings: Settings, table: str) -> Counter:
    with duckdb.connect(current_file(settings), read_only=True) as reader:
        return Counter(map(comparable, reader.execute(f"select * from lake.{table}").fetchall()))


def rows_in_spark(marts, table: str) -> Counter:
    return Counter(map(comparable, marts.table(f"lake.{table}").collect()))
