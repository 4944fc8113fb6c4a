"""Job: reset a queue whose topic was deleted and recreated: start a new epoch.

Rows that were read before are kept; the next extraction reads the queue from its beginning. Use it for a queue that an
extraction reported as recreated. The job does not query the broker: a healthy queue would be read a second time, as
another epoch.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Callable

from pyspark.sql import SparkSession

from spark_jobs.jobs.run import run_job
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import OFFSETS, RUN_ID, Position, Positions, Queue, read_offsets, to_json
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings


def reset(spark: SparkSession, settings: Settings, queue: Queue) -> Position:
    """Publish a position at offset 0 of the queue's next epoch; return it.

    Raises:
        ValueError: the queue was never read; the message lists those that were.
        publish.PublishConflictError: an extraction published first.
    """

    def changed(positions: Positions) -> Positions:
        if queue not in positions:
            known = ", ".join(map(str, sorted(positions))) or "none"
            raise ValueError(f"queue {queue} was never read; known are: {known}")
        before = positions[queue]
        return {queue: Position(next=0, epoch=before.epoch + 1, complete_to=before.complete_to)}

    return publish_positions(spark, settings, "reset", changed)[queue]


def publish_positions(
    spark: SparkSession, settings: Settings, purpose: str, change: Callable[[Positions], Positions]
) -> Positions:
    """Publish committed offsets of raw with changed positions and no rows; return those that `change` returned.

    Raises:
        publish.PublishConflictError: an extraction published first.
    """
    committed = read_offsets(spark, settings, tables.RAW)
    changed = change(committed.positions)
    nothing = spark.createDataFrame([], tables.RAW.schema)
    with publish.write_audit_publish(spark, tables.RAW, purpose, committed.head) as branch:
        offsets = to_json({**committed.positions, **changed})
        publish.append(
            nothing, tables.RAW, branch, {OFFSETS: offsets, RUN_ID: f"{purpose} {uuid.uuid4().hex}"}
        )
    return changed


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queue", required=True, help="<cluster>/<trace topic>/<broker>/<queue id>")
    args = parser.parse_args(argv)
    settings = Settings()
    spark = session("ingest reset", settings)
    tables.ensure(spark)
    try:
        queue = Queue.parse(args.queue)
        position = publish.retry_on_conflict()(reset, spark, settings, queue)
    except ValueError as error:
        sys.exit(str(error))
    print(
        f"queue {args.queue} starts epoch {position.epoch}: the next extraction reads it from its beginning"
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
