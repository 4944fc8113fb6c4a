"""Publish an audited append although main has moved: commit its data files again, on top of the new main.

Extractions of different clusters run at the same time and append to the same table. The one that publishes second need not
read its messages again: the other's commit has changed neither its queues nor its rows.
"""

from __future__ import annotations

from collections.abc import Callable

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from spark_jobs.lake.catalog import retry_commit
from spark_jobs.lake.publish import PublishConflictError, branch, fast_forward, load
from spark_jobs.lake.tables import Table

TRIES = 20  # each is a few commits of metadata; another extraction has published before each


def publish_appended(
    spark: SparkSession,
    table: Table,
    branch_name: str,
    base: int | None,
    properties: Callable[[dict[str, str]], dict[str, str]],
    is_compatible: Callable[[dict[str, str]], bool],
) -> None:
    """Fast-forward main to a branch that has appended rows; if main has moved, append their data files to the new main.

    Args:
        spark: the session.
        table: the table to publish to.
        branch_name: a branch with one commit on top of `base`, an append.
        base: the snapshot id of main that the branch was created from.
        properties: the snapshot properties of the append, from those of the new main's snapshot.
        is_compatible: whether the append holds after a commit with these snapshot properties.

    Raises:
        PublishConflictError: an incompatible commit was published first, or main moved `TRIES` times.
    """
    try:
        fast_forward(spark, table.full_name, branch_name)
        return
    except PublishConflictError as error:
        conflict = error
    for _ in range(TRIES):
        loaded = load(spark, table.full_name)
        main = loaded.currentSnapshot()
        if not all(map(is_compatible, _summaries(loaded, main, base))):
            raise conflict
        with branch(spark, table, "rebase", main.snapshotId()) as again:
            _append_files(spark, table, branch_name, again, properties({**main.summary()}))
            try:
                fast_forward(spark, table.full_name, again)
                return
            except PublishConflictError as error:
                conflict = error
    raise conflict


def _summaries(loaded: JavaObject, snapshot: JavaObject, base: int | None) -> list[dict[str, str]]:
    """The properties of the snapshots after `base`, up to this one; one without any if `base` is not its ancestor."""
    found = []
    while snapshot is not None and snapshot.snapshotId() != base:
        found.append({**snapshot.summary()})
        parent = snapshot.parentId()
        snapshot = None if parent is None else loaded.snapshot(parent)
    return found if snapshot is not None else [{}]


def _append_files(
    spark: SparkSession, table: Table, source: str, target: str, properties: dict[str, str]
) -> None:
    def commit() -> None:
        loaded = load(spark, table.full_name)
        operation = loaded.newAppend().toBranch(target)
        for file in loaded.snapshot(source).addedDataFiles(loaded.io()):
            operation.appendFile(file)
        for name, value in properties.items():
            operation.set(name, value)
        operation.commit()

    retry_commit()(commit)
