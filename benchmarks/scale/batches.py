"""A batch from the broker to the marts, stage by stage; and the same messages decoded and appended without all else."""

from __future__ import annotations

import uuid
from collections import defaultdict
from functools import partial

from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.merge.plain import append
from benchmarks.models.builds import build, set_main
from benchmarks.scale.lakes import Lake
from benchmarks.scale.used import Gauge, Used
from spark_jobs.ingest import raw
from spark_jobs.ingest.plan import Plan
from spark_jobs.jobs import merge
from spark_jobs.jobs.extract import extract
from spark_jobs.lake import planning
from spark_jobs.lake.offsets import committed
from spark_jobs.lake.ranges import rows_in
from spark_jobs.lake.tables import EVENTS, RAW
from spark_jobs.settings import Cluster, Settings

EXTRACT, MERGE, CHECKS, MARTS = "extract", "merge", "checks", "marts of the batch"
STAGES = (EXTRACT, MERGE, CHECKS, MARTS)
APPEND, READ_AND_APPEND = "decode, plain append", "read, decode, plain append"
Costs = dict[str, list[Used]]
"""Stage to what it used in each round."""


class Batches:
    """Runs the batch in lakes.

    Attributes:
        records: of the batch; 0 before the first run.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        cluster: Cluster,
        messages: int,
        gauge: Gauge,
        with_marts: bool,
    ):
        self._spark, self._settings, self._cluster = spark, settings, cluster
        self._messages, self._gauge, self._with_marts = messages, gauge, with_marts
        self.records = 0

    def run(self, lake: Lake, with_plain: bool = False) -> dict[str, Used]:
        """The batch into this lake, as it was before; and, if asked, beside it what the records cost without all else."""
        spark, settings, run_id = self._spark, self._settings, uuid.uuid4().hex
        measure = self._gauge.measure
        set_main(spark, lake.state)
        used: dict[str, Used] = {}
        (plan, written), used[EXTRACT] = measure(
            partial(extract, spark, self._cluster, settings, run_id, self._messages)
        )
        assert written.messages == self._messages, (written, plan.failures)
        before = committed(settings, EVENTS)
        audit, used[MERGE] = measure(partial(merge.merge_all, spark, settings, run_id))
        self.records = audit.records
        _, used[CHECKS] = measure(partial(merge.check, spark, settings, before, audit, run_id))
        if self._with_marts:
            with planning.for_records(spark, settings, self.records):
                _, used[MARTS] = measure(partial(build, spark, settings))
        if with_plain:
            used |= self._plain(lake, plan)
        return used

    def _plain(self, lake: Lake, plan: Plan) -> dict[str, Used]:
        spark, settings, head = self._spark, self._settings, lake.state[EVENTS.name]
        sources = {
            APPEND: rows_in(spark.table(RAW.full_name), plan.ranges),
            READ_AND_APPEND: raw.read(spark, self._cluster, plan, settings, "plain"),
        }
        used = {}
        for name, messages in sources.items():
            set_main(spark, {EVENTS.name: head})
            _, used[name] = self._gauge.measure(partial(append, spark, messages, settings, head))
        return used


def race(batches: Batches, lakes: list[Lake], rounds: int, console: Console) -> dict[float, Costs]:
    """What the batch used in each lake: the smallest and the largest in turn; the others once."""
    costs: dict[float, Costs] = {lake.millions: defaultdict(list) for lake in lakes}
    for turn in range(rounds):
        these = lakes if turn == 0 else [*lakes[:1], *lakes[1:][-1:]]
        for lake in these[:: -1 if turn % 2 else 1]:
            used = batches.run(lake, with_plain=lake is lakes[-1])
            for stage, each in used.items():
                costs[lake.millions][stage].append(each)
            spent = ", ".join(f"{stage} {each.cpu:.1f}" for stage, each in used.items())
            console.print(f"round {turn + 1}, {lake.millions:g} M, CPU s: {spent}")
    return costs
