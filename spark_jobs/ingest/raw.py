"""Read the messages of a plan, and write them to `lake.raw.trace_messages`: append to a branch, audit, publish."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import defaultdict
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.ingest import progress
from spark_jobs.ingest.plan import Plan
from spark_jobs.ingest.source_options import datasource_options
from spark_jobs.ingest.step import Gap
from spark_jobs.lake import publish, rebase
from spark_jobs.lake.offsets import (
    EXTRACTED,
    OFFSETS,
    RUN_ID,
    CommittedOffsets,
    Queue,
    Range,
    from_json,
    to_json,
)
from spark_jobs.lake.ranges import rows_in
from spark_jobs.lake.tables import INGEST_GAPS, RAW
from spark_jobs.rocketmq.errors import QueueLocation
from spark_jobs.settings import Cluster, Settings
from spark_jobs.trace.pieces import min_records

# Extractions of several clusters in one process publish in turn; otherwise each would overtake the others again and again.
_publishing = threading.Lock()


def read(spark: SparkSession, cluster: Cluster, plan: Plan, settings: Settings, run_id: str) -> DataFrame:
    """The planned ranges as rows of raw, read by the data source `rocketmq` when an action runs."""
    by_topic: dict[str, list[Range]] = defaultdict(list)
    for each in plan.ranges:
        by_topic[each.queue.trace_topic].append(each)
    frames = [
        spark.read.format("rocketmq")
        .options(**datasource_options(cluster, settings.extract))
        .option("topic", topic)
        .option("startingOffsets", _offset_map({r.queue: r.start for r in ranges}))
        .option("endingOffsets", _offset_map({r.queue: r.end for r in ranges}))
        .option("epochs", _offset_map({r.queue: r.epoch for r in ranges}))
        .load()
        for topic, ranges in sorted(by_topic.items())
    ]
    if not frames:
        return spark.createDataFrame([], RAW.schema)
    ingested_at = datetime.fromtimestamp(plan.planned_at / 1000, UTC)
    return reduce(DataFrame.unionByName, frames).withColumns(
        {"min_records": min_records(), "run_id": F.lit(run_id), "ingested_at": F.lit(ingested_at)}
    )


def _offset_map(values: dict[Queue, int]) -> str:
    nested: dict[str, dict[str, int]] = defaultdict(dict)
    for queue, value in values.items():
        nested[queue.broker][str(queue.queue_id)] = value
    return json.dumps(nested)


@dataclass(frozen=True)
class Stored:
    """Number of messages that were written for one queue, and their size in the broker's store, bytes."""

    messages: int
    size: int


@dataclass(frozen=True)
class Written:
    """What one publication wrote; `seconds` is the time that reading and writing took."""

    queues: dict[Queue, Stored]
    seconds: float

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.queues.values())

    @property
    def size(self) -> int:
        return sum(each.size for each in self.queues.values())


def write(spark: SparkSession, rows: DataFrame, plan: Plan, run_id: str, before: CommittedOffsets) -> Written:
    """Publish the rows together with the committed offsets of the plan, which differ from those `before`.

    An extraction of another cluster that publishes first does no harm: see `rebase`.

    Raises:
        publish.PublishConflictError: another extraction of the cluster, or an erasure, published first.
        publish.AuditError: the branch does not contain exactly the planned offsets.
        PySparkException, Py4JJavaError: a range could not be read; see `unreadable` and `unreachable`.
    """
    changed = {queue: new for queue, new in plan.positions.items() if before.positions.get(queue) != new}
    (cluster,) = {queue.cluster for queue in changed}

    def properties(main: dict[str, str]) -> dict[str, str]:
        # The commit that gives an empty table its first snapshot has none.
        positions = (from_json(main[OFFSETS]) if OFFSETS in main else before.positions) | changed
        return {OFFSETS: to_json(positions), RUN_ID: run_id, EXTRACTED: cluster}

    def is_of_another_cluster(commit: dict[str, str]) -> bool:
        return commit.get(EXTRACTED, cluster) != cluster

    with publish.branch(spark, RAW, "extract", before.head) as branch:
        started = time.monotonic()
        with progress.of(spark, cluster, sum(each.end - each.start for each in plan.ranges)):
            publish.append(rows, RAW, branch, properties({OFFSETS: to_json(before.positions)}))
        seconds = time.monotonic() - started
        written = _audit(spark, branch, plan)
        if plan.gaps:
            _record_gaps(spark, plan.gaps, plan.planned_at, run_id)
        with _publishing:
            rebase.publish_appended(spark, RAW, branch, before.head, properties, is_of_another_cluster)
    return Written(written, seconds)


def unreadable(error: Exception, plan: Plan) -> tuple[Queue, str] | None:
    """The planned queue that a Spark job failed on, and why; None if it failed for another reason.

    An exception of a task reaches the driver as text; the reader's errors name their queue (`QueueLocation`).
    """
    for each in plan.ranges:
        queue = each.queue
        location = str(QueueLocation(queue.cluster, queue.trace_topic, queue.broker, queue.queue_id))
        if found := re.search(rf"(?m)\b{re.escape(location)}\b[^\n]*", str(error)):
            return queue, found[0]
    return None


def unreachable(error: Exception, cluster: Cluster) -> str | None:
    """Why a Spark job could not ask the cluster, such as its nameservers; None if it failed for another reason."""
    found = re.search(rf"(?m)\b{re.escape(str(QueueLocation(cluster.name)))}[,:] [^\n]*", str(error))
    return found[0] if found else None


def _audit(spark: SparkSession, branch: str, plan: Plan) -> dict[Queue, Stored]:
    """Check that every planned offset exists exactly once, and that the last message of each queue is the planned one."""
    ranges = plan.ranges
    if not ranges:
        return {}
    found = {
        Queue(row.cluster, row.trace_topic, row.broker, row.queue_id): row
        for row in rows_in(publish.on_branch(spark, RAW, branch), ranges)
        .groupBy("cluster", "trace_topic", "broker", "queue_id")
        .agg(
            F.count("*").alias("rows"),
            F.countDistinct("queue_offset").alias("offsets"),
            F.sum("stored_size").alias("size"),
            F.expr("max_by(struct(unix_millis(store_time) as ms, body_crc as crc), queue_offset)").alias(
                "last"
            ),
        )
        .collect()
    }
    wrong = []
    for each in ranges:
        row, planned, position = found.get(each.queue), each.end - each.start, plan.positions[each.queue]
        if row is None or row.rows != planned or row.offsets != planned:
            written = f"{row.rows} rows of {row.offsets} offsets" if row else "nothing"
            wrong.append(
                f"queue {each.queue}: {planned} offsets from {each.start} were planned, {written} was written"
            )
        elif (row["last"].ms or 0, row["last"].crc) != (position.store_time or 0, position.crc):
            wrong.append(
                f"queue {each.queue}: the message at offset {each.end - 1} changed while it was read"
            )
    if wrong:
        raise publish.AuditError(
            f"{RAW.full_name}: " + "; ".join(wrong) + ". Nothing was published; run the extraction again"
        )
    return {queue: Stored(row.rows, row.size or 0) for queue, row in found.items()}


def _record_gaps(spark: SparkSession, gaps: list[Gap], detected_at: int, run_id: str) -> None:
    """Merge the gaps by queue and offset before the publish, so that a retry after a crash does not duplicate a gap."""

    def utc(ms: int | None) -> datetime | None:
        return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)

    rows = []
    for gap in gaps:
        offsets = (gap.missing.epoch, gap.missing.start, gap.missing.end)
        times = (utc(gap.from_time), utc(gap.to_time), utc(detected_at))
        rows.append((*astuple(gap.missing.queue), *offsets, *times, run_id))
    view = f"found_gaps_{threading.get_ident()}"  # several clusters may be extracted in this session
    spark.createDataFrame(rows, INGEST_GAPS.schema).createOrReplaceTempView(view)
    key = ("cluster", "trace_topic", "broker", "queue_id", "epoch", "from_offset")
    spark.sql(
        f"merge into {INGEST_GAPS.full_name} t using {view} s "
        f"on {' and '.join(f't.{k} = s.{k}' for k in key)} "
        "when matched then update set t.to_offset = s.to_offset, t.to_time = s.to_time "
        "when not matched then insert *"
    )
