"""Write, audit, publish: a commit is made on a branch, checked there, then becomes main.

`fast_forward` is a compare-and-set: it succeeds only if main is still where the branch started, and
the branch starts where main was when the plan read its books. That, and no lock, keeps two writers
from doubling rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random

from spark_jobs.lake.tables import Table

ATTEMPTS = 3
_MADE = "%Y%m%d%H%M%S"


class PublishConflictError(Exception):
    """Another writer published first; nothing of ours is on main. Plan again from the new main."""


class AuditError(Exception):
    """What stands on the branch is not what was planned; it was not published."""


@contextmanager
def branch(spark: SparkSession, table: Table, purpose: str, base: int | None) -> Iterator[str]:
    """A branch for one publication, from the snapshot that the plan was made on; dropped at the end.

    A branch that a killed process leaves behind hides nothing; maintenance drops it when it is old, which
    its name tells. (A ref that Iceberg expires by itself is as old as its snapshot: a new branch from a main
    that has stood still would be gone before it is written.)

    Args:
        spark: the session.
        table: the table to publish to.
        purpose: begins the branch's name.
        base: `CommittedOffsets.head` of the books that the plan was made from.

    Raises:
        PublishConflictError: the table had no snapshot to start from. It has one now: plan again.
    """
    if base is None:
        spark.createDataFrame([], table.schema).writeTo(table.full_name).append()
        raise PublishConflictError(f"{table.full_name} had no main yet")
    name = f"{purpose}_{datetime.now(UTC):{_MADE}}_{uuid.uuid4().hex[:12]}"
    _move_refs(spark, f"alter table {table.full_name} create branch {name} as of version {base}")
    try:
        yield name
    finally:
        drop_branch(spark, table.full_name, name)


def made_at(branch_name: str) -> datetime | None:
    """When a branch of `branch` was made; None for any other one."""
    parts = branch_name.split("_")
    try:
        return datetime.strptime(parts[-2], _MADE).replace(tzinfo=UTC)
    except (IndexError, ValueError):
        return None


def drop_branch(spark: SparkSession, table: str, name: str) -> None:
    """Drop a branch, if it is there, of a table by its full name."""
    _move_refs(spark, f"alter table {table} drop branch if exists {name}")


def append(rows: DataFrame, table: Table, branch_name: str, properties: dict[str, str]) -> None:
    """Append rows to a branch in one commit that carries the properties; no rows is a commit too."""
    writer = (
        rows.select(*table.column_names).write.format("iceberg").mode("append").option("branch", branch_name)
    )
    for key, value in properties.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    writer.save(table.full_name)


@contextmanager
def commit_with_properties(spark: SparkSession, properties: dict[str, str]) -> Iterator[None]:
    """Within it, the snapshot of every MERGE, INSERT and DELETE carries the properties."""
    conf = {f"spark.sql.iceberg.snapshot-property.{key}": value for key, value in properties.items()}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in conf:
            spark.conf.unset(key)


def on_branch(spark: SparkSession, table: Table, branch_name: str) -> DataFrame:
    return spark.read.format("iceberg").option("branch", branch_name).load(table.full_name)


def fast_forward(spark: SparkSession, table: str, branch_name: str) -> None:
    """Make the branch's head the head of main; a table without a main gets one.

    Args:
        spark: the session.
        table: the table's full name, with the catalog.
        branch_name: of the branch.

    Raises:
        PublishConflictError: main has moved since the branch was made.
    """
    try:
        _move_refs(spark, f"call lake.system.fast_forward('{table}', 'main', '{branch_name}')")
    except (PySparkException, Py4JJavaError) as error:
        if "not an ancestor" in str(error):
            raise PublishConflictError(f"{table}: main moved while {branch_name} was written") from error
        raise


def _move_refs(spark: SparkSession, statement: str) -> None:
    """Run a statement that makes, moves or drops a branch, again if another commit came between.

    Each attempt looks at main anew, so a fast-forward stays a compare-and-set.
    """
    for attempt in retry_commit():
        with attempt:
            spark.sql(statement).collect()


def retry_commit() -> Retrying:
    """Attempts of a commit that Iceberg does not try again by itself, or not often enough, as another one came between.

    It fails with CommitFailedException then, having changed nothing; each attempt must look at the table anew.
    """
    return Retrying(
        retry=retry_if_exception(_is_conflict),
        stop=stop_after_attempt(8),
        wait=wait_random(0.05, 0.5),
        reraise=True,
    )


def _is_conflict(error: BaseException) -> bool:
    return "CommitFailedException" in str(error)


def retry_on_conflict() -> Retrying:
    """Call the whole of plan, write, audit, publish again when another writer was first, be it on the branch."""
    return Retrying(
        retry=retry_if_exception(
            lambda error: isinstance(error, PublishConflictError) or _is_conflict(error)
        ),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random(0.1, 2),
        reraise=True,
    )
