"""Job: reset a queue whose topic was deleted and recreated: start a new epoch.

Rows that were read before are kept; the next extraction reads the queue from its beginning. Use it for a queue that an
extraction reported as recreated. The job does not query the broker: a healthy queue would be read a second time, as
another epoch.
"""

from __future__ import annotations

import argparse
import sys
import uuid

from pyspark.sql import SparkSession

from spark_jobs.jobs.run import run_job
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import OFFSETS, RUN_ID, Position, Queue, read_offsets, to_json
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings


def reset(spark: SparkSession, settings: Settings, queue: Queue) -> Position:
    """Publish a position at offset 0 of the queue's next epoch; return it.

    Raises:
        ValueError: the queue was never read; the message lists those that were.
        publish.PublishConflictError: an extraction published first.
    """
    committed = read_offsets(spark, settings, tables.RAW)
    positions = dict(committed.positions)
    if queue not in positions:
        known = ", ".join(map(str, sorted(positions))) or "none"
        raise ValueError(f"queue {queue} was never read; known are: {known}")
    before = positions[queue]
    positions[queue] = Position(next=0, epoch=before.epoch + 1, complete_to=before.complete_to)
    nothing = spark.createDataFrame([], tables.RAW.schema)
    with publish.write_audit_publish(spark, tables.RAW, "reset", committed.head) as branch:
        properties = {OFFSETS: to_json(positions), RUN_ID: f"reset {uuid.uuid4().hex}"}
        publish.append(nothing, tables.RAW, branch, properties)
    return positions[queue]


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
