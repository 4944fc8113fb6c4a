"""Job: retire queues whose broker, or which themselves, were removed permanently: they no longer hold the watermark back.

Their rows and committed offsets are kept. A queue that is in the route of its topic again is read on from there, and is
no longer retired. The job does not query the broker.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from pyspark.sql import SparkSession

from spark_jobs.jobs.reset_queue import publish_positions
from spark_jobs.jobs.run import run_job
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import Positions
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings


def retire(spark: SparkSession, settings: Settings, name: str) -> list[str]:
    """Retire a queue, or all queues of a trace topic on a broker; return those that were not retired before.

    Args:
        spark: the session.
        settings: those of the lake.
        name: `<cluster>/<trace topic>/<broker>/<queue id>`, or without the queue id.

    Raises:
        ValueError: there is no such queue that is not retired; the message lists those that there are.
        publish.PublishConflictError: an extraction published first.
    """

    def changed(positions: Positions) -> Positions:
        active = {queue: position for queue, position in positions.items() if not position.retired}
        found = {
            queue: replace(position, retired=True)
            for queue, position in active.items()
            if name in (str(queue), str(queue).rpartition("/")[0])
        }
        if not found:
            known = ", ".join(map(str, sorted(active))) or "none"
            raise ValueError(
                f"{name} is no queue and no broker of a trace topic that is read; queues are: {known}"
            )
        return found

    return [str(queue) for queue in sorted(publish_positions(spark, settings, "retire", changed))]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--queue",
        required=True,
        help="<cluster>/<trace topic>/<broker>/<queue id>, or without the queue id for all of them",
    )
    args = parser.parse_args(argv)
    settings = Settings()
    spark = session("ingest retire", settings)
    tables.ensure(spark)
    try:
        retired = publish.retry_on_conflict()(retire, spark, settings, args.queue)
    except ValueError as error:
        sys.exit(str(error))
    print(f"retired: {', '.join(retired)}; the watermark of the cluster does not depend on them")
    return 0


if __name__ == "__main__":
    sys.exit(run_job(main))
