"""Publish the branches of all marts together: fast-forward main of every table, also after a crash in between.

The list of tables, branches and snapshots is written to `lake.ops.publications` before the first table is published. A
later run that finds an unfinished list publishes the rest first (roll forward).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import ancestors_of
from pyspark.sql import Row, SparkSession

from spark_jobs.lake.publish import AuditError, PublishConflictError, fast_forward, replace_main
from spark_jobs.lake.tables import PUBLICATIONS
from spark_jobs.mart_build import branches
from spark_jobs.settings import CATALOG


def publish(
    spark: SparkSession,
    catalog: Catalog,
    tables: list[str],
    branch: str,
    publication_id: str,
    change_seq_to: int,
    definitions: Mapping[str, str] | None = None,
    replaces: bool = False,
) -> None:
    """Publish the branch of every table.

    Args:
        spark: the session.
        catalog: the same catalog through pyiceberg.
        tables: each `<namespace>.<name>`.
        branch: of all of them.
        publication_id: of this publication.
        change_seq_to: the last change_seq of events that the tables contain.
        definitions: the digests of what defines their rows, by table.
        replaces: the branches replace main as it is now, which has moved since they were created; they are not fast-forwarded to.

    Raises:
        AuditError: the branch of a table is missing, for example because another run dropped it.
        PublishConflictError: another run published since the branch was created; nothing of this one is on main.
    """
    found = {table: catalog.load_table(table).metadata for table in tables}
    if missing := [table for table, metadata in found.items() if branch not in metadata.refs]:
        raise AuditError(
            f"{', '.join(missing)}: branch {branch} does not exist; did another run of the marts drop it? "
            "Nothing was published; run the job again, while no other run is active"
        )
    heads = {table: metadata.refs[branch].snapshot_id for table, metadata in found.items()}
    if not replaces and (moved := [table for table in tables if not _is_behind(found[table], heads[table])]):
        raise PublishConflictError(
            f"{', '.join(moved)}: main has moved since branch {branch} was created. Nothing was published; run the job again"
        )
    now = datetime.now(UTC)
    rows = [
        (
            *(publication_id, table, branch, heads[table], change_seq_to, now, None),
            (definitions or {}).get(table),
            found[table].current_snapshot_id if replaces else None,
        )
        for table in tables
    ]
    spark.createDataFrame(rows, PUBLICATIONS.schema).coalesce(1).writeTo(PUBLICATIONS.full_name).append()
    _finish(spark, catalog, [Row(*PUBLICATIONS.column_names)(*row) for row in rows])


def roll_forward(spark: SparkSession, catalog: Catalog) -> list[str]:
    """Finish unfinished publications; return their ids.

    Raises:
        PublishConflictError: a publication can no longer be finished, as another one was published since. If none of
            its tables is on main, its rows are deleted first, so that the next run starts from scratch.
    """
    unfinished: dict[str, list[Row]] = defaultdict(list)
    rows = (
        spark.table(PUBLICATIONS.full_name).where("published_at is null").orderBy("created_at", "table_name")
    )
    for row in rows.collect():
        unfinished[row.publication_id].append(row)
    for rows_of_one in unfinished.values():
        _finish(spark, catalog, rows_of_one)
    return list(unfinished)


def _finish(spark: SparkSession, catalog: Catalog, rows: list[Row]) -> None:
    publication_id = rows[0].publication_id
    moved = 0
    for row in rows:
        try:
            if not _is_done(catalog, row):
                _move_main(spark, catalog, row)
            moved += 1
        except PublishConflictError as refused:
            if not moved:
                spark.sql(f"delete from {PUBLICATIONS.full_name} where publication_id = '{publication_id}'")
                raise
            raise PublishConflictError(
                f"publication {publication_id} is only partly on main: {moved} of {len(rows)} tables, then {refused}. "
                f"Delete its rows from {PUBLICATIONS.full_name} and run the job again: it publishes all tables"
            ) from refused
    spark.sql(
        f"update {PUBLICATIONS.full_name} set published_at = timestamp '{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}' "
        f"where publication_id = '{publication_id}'"
    )


def _is_behind(metadata: TableMetadata, head: int) -> bool:
    """Whether main does not exist, or is the snapshot or an ancestor of it, so that it can be fast-forwarded."""
    main = metadata.current_snapshot_id
    history = ancestors_of(metadata.snapshot_by_id(head), metadata)
    return main is None or any(snapshot.snapshot_id == main for snapshot in history)


def _is_done(catalog: Catalog, row: Row) -> bool:
    """Whether main has moved; a snapshot that replaces a later one was on main before."""
    replaced = row.replaced_snapshot_id
    return branches.is_on_main(catalog, row.table_name, row.snapshot_id) and (
        replaced in (None, row.snapshot_id) or not branches.is_on_main(catalog, row.table_name, replaced)
    )


def _move_main(spark: SparkSession, catalog: Catalog, row: Row) -> None:
    head = branches.heads(catalog, row.table_name).get(row.branch)
    if head != row.snapshot_id:
        raise PublishConflictError(
            f"{row.table_name}: branch {row.branch} is at {head}, not at {row.snapshot_id}, which was tested"
        )
    if row.replaced_snapshot_id is None:
        fast_forward(spark, f"{CATALOG}.{row.table_name}", row.branch)
    else:
        replace_main(spark, f"{CATALOG}.{row.table_name}", row.snapshot_id, row.replaced_snapshot_id)
