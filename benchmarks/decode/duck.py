"""The floor: DuckDB splits the same bytes into records and fields, and casts three of them. No layouts, no checks."""

from __future__ import annotations

from pathlib import Path

import duckdb

_TEXT = (3, 4, 5, 6, 7, 8, 9, 13)


def connect(folder: Path, threads: int) -> duckdb.DuckDBPyConnection:
    """A connection with the view `messages` over the Parquet files in the folder."""
    connection = duckdb.connect()
    connection.execute(f"set threads = {threads}")
    connection.execute(
        f"create view messages as select queue_offset, store_time, decode(body) as body "
        f"from read_parquet('{folder}/*.parquet')"
    )
    return connection


def split(connection: duckdb.DuckDBPyConnection) -> int:
    """Split and cast everything into a table in memory; returns the number of records."""
    text = ", ".join(f"f[{place}] as f{place}" for place in _TEXT)
    connection.execute(
        f"""
        create or replace temp table records as
        select
          queue_offset, store_time, f[1] as record_type, {text}, try_cast(f[2] as bigint) as time,
          try_cast(f[10] as bigint) as body_length, try_cast(f[11] as double) as cost,
          try_cast(f[12] as bigint) as msg_type, try_cast(f[14] as boolean) as success
        from (
          select queue_offset, store_time, string_split(record, chr(1)) as f
          from (select queue_offset, store_time, unnest(string_split(body, chr(2))) as record from messages)
          where record != ''
        )
        """
    )
    row = connection.execute("select count(*) from records").fetchone()
    assert row is not None
    return int(row[0])
