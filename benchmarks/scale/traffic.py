"""The traffic: a history of 10 M records a day up to a batch of five minutes, which the official Java client sends to a broker.

The messages are those of `benchmarks/history.py`. The history is stored in the days before the batch, as if it had been read
then; its newest records are in every lake. So the hours and the topics of the batch are the same in a small and a large lake.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.extract import topic
from benchmarks.history import CHUNK, CURRENT, MESSAGES, bodies, stored
from sandbox.broker import Sandbox
from spark_jobs.lake.offsets import Position, Positions
from spark_jobs.settings import Cluster

RECORDS = 3 * MESSAGES  # of a trace message, on average
STEP_MS = 86_400_000 // (10 * CHUNK)
BATCH_MS = 300_000
TOPIC = "bench-scale"


@dataclass(frozen=True)
class Traffic:
    """History and batch.

    Attributes:
        now_ms: when the batch is sent to the broker.
        history: trace messages of the largest lake.
        batch: trace messages of the batch.
    """

    now_ms: int
    history: int
    batch: int

    @property
    def history_end_ms(self) -> int:
        return self.now_ms - BATCH_MS

    @property
    def positions(self) -> Positions:
        """The committed offsets of a lake without the batch. The history's topic is not read any more."""
        return {CURRENT: Position(next=self.history, complete_to=self.history_end_ms)}

    def newest(self, spark: SparkSession, first: int, last: int) -> DataFrame:
        """Rows of raw: the history's messages from the `last`-newest to the `first`-newest."""
        since = self.history_end_ms - self.history * STEP_MS
        found = bodies(spark, CURRENT, self.history - last, self.history - first, since, STEP_MS)
        rows = stored(found, CURRENT, F.lit(since) + F.col("queue_offset") * STEP_MS)
        return rows.withColumn("ingested_at", F.col("store_time"))

    def send(self, spark: SparkSession, sandbox: Sandbox, folder: Path) -> Cluster:
        """Send the batch to the broker; the cluster to read it from.

        One more message follows. So an extraction of the batch does not reach the end of the queue, and its watermark is the
        time of the last message, in each round the same.
        """
        step = max(1, BATCH_MS // self.batch)
        since = self.history_end_ms - self.history * step
        sent = bodies(spark, CURRENT, self.history, self.history + self.batch + 1, since, step)
        written = folder / "bodies"
        sent.orderBy("queue_offset").select("body").coalesce(1).write.text(str(written))
        (file,) = written.glob("part-*")
        topic.write_given(sandbox.namesrv, sandbox.broker_name, folder, TOPIC, file, self.batch + 1)
        return Cluster(name=CURRENT.cluster, namesrv=[sandbox.namesrv], trace_topics=[TOPIC])


def trace_messages(millions: float) -> int:
    """So many millions of records."""
    return round(millions * 1e6 / RECORDS)
