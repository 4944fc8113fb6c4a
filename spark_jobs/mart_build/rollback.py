"""Put all marts back to an earlier publication: main of each table moves to the snapshot that the publication has put there.

Read with pyiceberg, without Spark; `roll_back` needs it.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table.metadata import TableMetadata
from pyspark.sql import SparkSession

from spark_jobs.lake import publish
from spark_jobs.lake.tables import PUBLICATIONS
from spark_jobs.mart_build import branches, publication
from spark_jobs.mart_build.inputs import WITH_INPUTS
from spark_jobs.settings import CATALOG


class RollbackError(RuntimeError):
    """The marts cannot be put back to a publication; the message says why."""


@dataclass(frozen=True)
class Publication:
    """A publication of `lake.ops.publications`.

    Attributes:
        id: its publication_id.
        published_at: when all of its tables were on main, UTC.
        change_seq_to: the last change_seq of events that its tables contain.
        snapshots: table to the snapshot that it has put on main.
        definitions: table to the digest of what defines its rows.
        obstacle: why the marts cannot be put back to it, or None.
        is_current: the published marts are those of it.
        is_earlier: the published marts were computed from those of it.
    """

    id: str
    published_at: datetime
    change_seq_to: int
    snapshots: Mapping[str, int]
    definitions: Mapping[str, str]
    obstacle: str | None
    is_current: bool
    is_earlier: bool


def publications(catalog: Catalog) -> list[Publication]:
    """All finished publications, the newest first."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in catalog.load_table(PUBLICATIONS.name).scan("published_at is not null").to_arrow().to_pylist():
        rows[row["publication_id"]].append(row)
    if not rows:
        return []
    newest = max(rows.values(), key=lambda of_one: max(row["published_at"] for row in of_one))
    # The table of a model that is gone stays in the lake, and no build writes it.
    built = sorted({row["table_name"] for row in newest} & set(branches.audited_tables(catalog)))
    tables = {table: catalog.load_table(table).metadata for table in built}
    found = [_publication(id_, of_one, tables) for id_, of_one in rows.items()]
    return sorted(found, key=lambda each: each.published_at, reverse=True)


def chosen(found: list[Publication], prefix: str | None) -> Publication:
    """The publication with this beginning of an id; without one, the newest that the published marts were computed from.

    Raises:
        RollbackError: there is none, more than one has it, or the marts cannot be put back to it.
    """
    if prefix is None:
        matching = [each for each in found if each.is_earlier][:1]
    else:
        matching = [each for each in found if each.id.startswith(prefix)]
    if not matching:
        raise RollbackError(
            f"there is no publication {prefix}" if prefix else "there is no earlier publication"
        )
    if len(matching) > 1:
        raise RollbackError(f"{len(matching)} publications begin with {prefix}: give more of the id")
    (one,) = matching
    if one.is_current:
        raise RollbackError(f"the published marts are those of {one.id}")
    if one.obstacle:
        raise RollbackError(f"the marts cannot be put back to {one.id}: {one.obstacle}")
    return one


def roll_back(spark: SparkSession, catalog: Catalog, to: Publication) -> None:
    """Move main of all tables to the snapshots of a publication. The caller holds the locks of builds and rebuilds.

    It is a publication itself: killed in between, the next run of the marts finishes it.

    Raises:
        lake.publish.PublishConflictError: another job published meanwhile.
    """
    rollback_id = uuid.uuid4().hex
    branch = f"{branches.PREFIX}{rollback_id[:12]}"
    for table, snapshot in to.snapshots.items():
        publish.create_branch(spark, f"{CATALOG}.{table}", branch, snapshot)
    publication.publish(
        spark, catalog, [*to.snapshots], branch, rollback_id, to.change_seq_to, to.definitions, replaces=True
    )
    branches.drop_all(spark, catalog, [*to.snapshots])


def _publication(id_: str, rows: list[dict[str, Any]], tables: Mapping[str, TableMetadata]) -> Publication:
    snapshots = {row["table_name"]: row["snapshot_id"] for row in rows}
    expired = [
        table
        for table, snapshot in sorted(snapshots.items())
        if table in tables and tables[table].snapshot_by_id(snapshot) is None
    ]
    obstacle = None
    if other := sorted(tables.keys() ^ snapshots.keys()):
        obstacle = f"it has other tables: {', '.join(other)}"
    elif expired:
        obstacle = f"maintenance or an erasure has expired its snapshots of {len(expired)} tables, such as {expired[0]}"
    # `advance_marts` commits to this one without a publication.
    built = [table for table in snapshots if table != WITH_INPUTS and table in tables]
    is_current = all(tables[table].current_snapshot_id == snapshots[table] for table in built)
    return Publication(
        id_,
        max(row["published_at"] for row in rows),
        rows[0]["change_seq_to"],
        snapshots,
        {row["table_name"]: row["definition"] for row in rows},
        obstacle,
        is_current,
        not is_current and all(branches.is_on_main_of(tables[table], snapshots[table]) for table in built),
    )
