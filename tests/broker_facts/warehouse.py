"""From the brokers to the marts by the jobs themselves, for tests of what the marts say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.broker_facts.record import record
from spark_jobs.checks.check import Result, Run
from spark_jobs.checks.evaluate import evaluate
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.jobs.brokers import record_facts
from spark_jobs.jobs.extract import extract
from spark_jobs.jobs.merge import merge_all
from spark_jobs.lake import publish, tables
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.lake.tables import OBSERVATIONS
from spark_jobs.mart_build import dbt
from spark_jobs.mart_build.build import build_and_publish
from spark_jobs.mart_build.inputs import Inputs, Published, inputs_now
from spark_jobs.settings import BrokerFacts, Cluster, Extract, Limits, Settings
from tests.broker_facts.conftest import World
from tests.planning import FACTS, only_models


@dataclass(frozen=True)
class Warehouse:
    """The jobs over the lake of the test."""

    spark: SparkSession
    catalog: Any
    settings: Settings
    asked: Cluster
    not_asked: Cluster | None = None

    @property
    def clusters(self) -> list[Cluster]:
        return [self.asked, *([self.not_asked] if self.not_asked else [])]

    def record(self) -> datetime:
        """One collection of the cluster whose brokers are asked. Its time."""
        recorded = record(self.settings, self.asked, "run")
        assert (recorded.problems, recorded.superseded) == ([], False)
        if self.not_asked:
            off = self.settings.broker_facts.model_copy(update={"enabled": False})
            record_facts(self.not_asked, self.settings.model_copy(update={"broker_facts": off}), "run")
        return World(self.settings, self.asked).rows(OBSERVATIONS)[-1]["observed_at"]

    def run(self, as_of: datetime | None = None) -> None:
        """Extract and merge the traces, and build the marts of problems, as of a time or of what was read."""
        for cluster in self.clusters:
            done, _ = publish.retry_on_conflict()(extract, self.spark, cluster, self.settings, "run")
            assert not done.failures
        merge_all(self.spark, self.settings, "run")
        offsets = read_offsets(self.spark, self.settings, tables.EVENTS)
        definitions = dbt.definitions(self.settings.limits, self.settings.home / "dbt")
        inputs = inputs_now(self.settings, offsets, Published.of(self.settings), definitions)
        assert inputs is not None
        if as_of:
            inputs = replace(
                inputs, watermarks=dict.fromkeys(inputs.watermarks, int(as_of.timestamp() * 1000))
            )
        with only_models(*FACTS):
            built = build_and_publish(self.spark, self.catalog, inputs, self.settings.home / "dbt")
        assert built.passed, (built.error, built.failures)

    def rows(self) -> list[dict[str, Any]]:
        """Those of `orphaned_messages`."""
        return [row.asDict() for row in self.spark.table("lake.marts.orphaned_messages").collect()]

    def alerts(self) -> dict[str | None, Result]:
        """Entity to its result of the check `orphans_proven`."""
        watermarks = Published.of(self.settings)
        assert watermarks is not None
        inputs = Inputs.over_all(watermarks, self.settings.limits)
        configured = self.settings.model_copy(update={"clusters": self.clusters})
        run = Run(configured, datetime.now(UTC), self.spark, inputs.watermarks)
        (alerts,) = evaluate([BY_NAME["orphans_proven"]], run)
        return {each.entity: each for each in alerts.results}


def settings_at_once(settings: Settings, **limits: float) -> Settings:
    """Everything is judged at once: one machine has one clock, and every collection records the offsets."""
    return settings.model_copy(
        update={
            # Where other tests run, too, a broker needs longer than the default.
            "broker_facts": BrokerFacts(
                offsets_minutes=0, recheck_minutes=0, timeout_seconds=60, deadline_seconds=300
            ),
            "extract": Extract(margin_seconds=0),
            "limits": Limits(**{"grace_seconds": 0, "offsets_lag_seconds": 0, **limits}),
        }
    )
