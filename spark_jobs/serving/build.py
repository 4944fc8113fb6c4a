"""Build the serving file of the published marts: it starts as a copy of the current one, and only what changed is written."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
from pyiceberg.catalog import Catalog

from spark_jobs.lake.catalog import lake
from spark_jobs.mart_build.inputs import Published
from spark_jobs.serving import files, in_place, object_store
from spark_jobs.serving.contents import FORMAT, Contents
from spark_jobs.serving.copied import copy, copy_newest
from spark_jobs.serving.shown import Shown, for_dashboards, for_readers
from spark_jobs.settings import Settings, pages_url

FUNCTIONS = Path(__file__).with_name("functions.sql")
PACKED_HISTOGRAMS = Path(__file__).with_name("packed_histograms.sql")
VIEWS = Path(__file__).with_name("dashboards.sql")
# The JVM of the job has its own memory.
_MEMORY = "1GB"
# Times are UTC.
TABLES = """
create schema if not exists marts;
create schema if not exists ops;
create schema if not exists events;
create schema if not exists raw;
create schema if not exists intermediate;
create schema if not exists serving;
create or replace table serving.publications (
  publication_id varchar, change_seq_to bigint, built_at timestamp, format varchar, warehouse varchar, pages varchar
);
create or replace table serving.watermarks (cluster varchar, complete_to timestamp);
create table if not exists serving.relations (
  table_name varchar, snapshot_id bigint, row_count bigint, columns varchar, is_copied boolean
);
create table if not exists serving.files (
  table_name varchar, partition_from timestamp, partition_to timestamp, bucket integer, buckets integer, path varchar,
  row_count bigint
);
"""


@dataclass(frozen=True)
class Built:
    """A serving file, and what was written into it.

    Attributes:
        file: its path.
        rows: rows that were inserted, by table that changed; for a table that is read in place, files that were added.
        seconds: the time that it took.
    """

    file: Path
    rows: dict[str, int]
    seconds: float


def build(settings: Settings, from_scratch: bool = False) -> Built:
    """Build the file of the marts that are published now, switch to it, and remove files that were superseded long ago.

    The caller holds the lock of the builds (`mart_build.lock`), so no other publication starts meanwhile.

    Args:
        settings: the lake, and which tables are too large to copy.
        from_scratch: for an erasure: write everything again, as free pages of the current file may have deleted rows,
            and remove all older files at once.

    Raises:
        ValueError: nothing is published yet, or a table is neither in a folder nor on S3.
    """
    started = time.monotonic()
    published = Published.of(settings)
    if published is None:
        raise ValueError("no marts are published yet: run `make run`, or wait for trace_marts")
    catalog = lake(settings)
    before = None if from_scratch else files.current(settings)
    try:
        file, written = _publish(settings, catalog, published, before)
    except Exception:
        if before is None:
            raise
        # The current file may be damaged, of another version, or of a lake that was moved.
        file, written = _publish(settings, catalog, published, None)
    files.remove_superseded(settings, timedelta(minutes=0 if from_scratch else settings.serving.keep_minutes))
    return Built(file, written, time.monotonic() - started)


def _publish(
    settings: Settings, catalog: Catalog, published: Published, before: Path | None
) -> tuple[Path, dict[str, int]]:
    target = files.start(settings)
    try:
        written = {}
        for name, shown in (
            (files.DASHBOARDS, for_dashboards(settings, catalog)),
            (files.FILE, for_readers(settings, catalog, published)),
        ):
            if before and (older := before.with_name(name)).exists():
                shutil.copyfile(older, target.with_name(name))
            written = _write(settings, published, target.with_name(name), shown)
        return files.publish(settings, target), written
    except BaseException:
        files.discard(target)
        raise


def _write(settings: Settings, published: Published, target: Path, shown: list[Shown]) -> dict[str, int]:
    written = {}
    with duckdb.connect(target) as connection:
        connection.execute(
            f"set TimeZone = 'UTC'; set memory_limit = '{_MEMORY}'; set preserve_insertion_order = false"
        )
        object_store.open_warehouse(connection, settings)
        known = _known(connection, settings.warehouse_uri)
        connection.begin()
        connection.execute(TABLES)
        connection.execute(FUNCTIONS.read_text())
        if target.name == files.DASHBOARDS:
            connection.execute(PACKED_HISTOGRAMS.read_text())
        for name in known.keys() - {each.name for each in shown}:
            _drop(connection, known[name])
        for each in shown:
            rows = _update(connection, each, known.get(each.name))
            if rows is not None:
                written[each.name] = rows
        _describe(connection, published, settings.warehouse_uri)
        if target.name == files.DASHBOARDS:
            connection.execute(VIEWS.read_text())
        connection.commit()
        # The close would write it too, but hides an error such as a full disk.
        connection.execute("checkpoint")
    if (log := target.with_name(f"{target.name}.wal")).exists():
        raise RuntimeError(f"{log} is left: DuckDB could not write all of the serving file")
    return written


@dataclass(frozen=True)
class _Relation:
    """A row of `serving.relations`."""

    table_name: str
    snapshot_id: int | None
    row_count: int
    columns: str
    is_copied: bool


def _known(connection: duckdb.DuckDBPyConnection, warehouse: str) -> dict[str, _Relation]:
    """The relations of the file that this one is a copy of, by table.

    Raises:
        duckdb.Error: the copy cannot be used.
    """
    if not connection.execute("select true from duckdb_tables() limit 1").fetchone():
        return {}
    contents = Contents.of(connection)
    if (contents.format, contents.warehouse) != (FORMAT, warehouse):
        raise duckdb.Error("the serving file has another format, or reads another lake")
    rows = connection.execute("select * from serving.relations").fetchall()
    return {row[0]: _Relation(*row) for row in rows}


def _update(connection: duckdb.DuckDBPyConnection, shown: Shown, known: _Relation | None) -> int | None:
    """Make a relation equal to a snapshot; return the rows or files that were added, None if it was equal."""
    table, snapshot = shown.table, shown.snapshot
    new = _Relation(
        shown.name,
        snapshot.snapshot_id if snapshot else None,
        shown.row_count,
        shown.columns,
        shown.is_copied,
    )
    if known == new:
        return None
    older = None
    if known and (known.columns, known.is_copied) == (new.columns, new.is_copied) and known.snapshot_id:
        older = table.snapshot_by_id(known.snapshot_id)
    if known and older is None:
        _drop(connection, known)
    if shown.newest_rows is not None:
        added = copy_newest(connection, table, snapshot, shown.newest_rows, shown.selection)
    elif shown.is_copied:
        added = copy(connection, table, older, snapshot, shown.selection)
    else:
        added = in_place.point_to(connection, table, older, snapshot)
    connection.execute("delete from serving.relations where table_name = ?", [shown.name])
    connection.execute(
        "insert into serving.relations values (?, ?, ?, ?, ?)",
        [new.table_name, new.snapshot_id, new.row_count, new.columns, new.is_copied],
    )
    return added


def _drop(connection: duckdb.DuckDBPyConnection, relation: _Relation) -> None:
    if relation.is_copied:
        connection.execute(f"drop table if exists {relation.table_name}")
    else:
        in_place.drop(connection, relation.table_name)
    connection.execute("delete from serving.relations where table_name = ?", [relation.table_name])


def _describe(connection: duckdb.DuckDBPyConnection, published: Published, warehouse: str) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    connection.execute(
        "insert into serving.publications values (?, ?, ?, ?, ?, ?)",
        [published.publication_id, published.change_seq_to, now, FORMAT, warehouse, pages_url()],
    )
    for cluster, complete_to in published.watermarks.items():
        connection.execute("insert into serving.watermarks values (?, ?)", [cluster, complete_to])
