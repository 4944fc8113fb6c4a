"""A rebuild: compute all rows of changed models in steps, beside the normal runs, and publish the marts with them.

It writes a branch of its own of all tables, which starts at the published marts. A step computes all rows of one model from the
records that these marts contain, or tests them. Then an incremental run on the branch takes up what was merged since, and the
branch replaces main of all tables together. Until then the normal runs go on with the published models (`projects`). What is
done is kept (`rebuild_state`), so that it goes on after `kill -9`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from dbt.contracts.graph.manifest import Manifest
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from spark_jobs.lake import tables
from spark_jobs.lake.offsets import read_offsets, records_after
from spark_jobs.mart_build import branches, dbt, durations, projects, publication, rebuild_state
from spark_jobs.mart_build.dbt import Build
from spark_jobs.mart_build.definitions import DBT_PROJECT, Definitions, in_order, needed_to_test
from spark_jobs.mart_build.inputs import WITH_INPUTS, Inputs, Published, changed_models, topics_of
from spark_jobs.mart_build.rebuild_state import RebuildState
from spark_jobs.settings import CATALOG, Settings

Step = list[str]
"""The models that a step computes."""

STAGING: Step = ["seeds and views of staging"]
TESTS: Step = ["tests of all rows"]
CATCH_UP = "what was merged meanwhile"
# A step computes several models if that is expected to take a short time.
MOST_SECONDS, MOST_MODELS = 60.0, 8
# The last incremental run, during which no normal run can build, has at most so many new records.
MOST_AT_THE_END = 1_000_000
_NO_UNIT_TESTS = ("--exclude-resource-type", "unit_test")
_NO_TESTS = (*_NO_UNIT_TESTS, "--indirect-selection", "empty")


class SupersededError(RuntimeError):
    """The rebuild was ended: by an erasure or a restore, or because other marts were published."""


@dataclass(frozen=True)
class Rebuild:
    """A rebuild of this lake.

    Attributes:
        spark: the session.
        catalog: the same catalog through pyiceberg.
        settings: the settings.
        definitions: those of the models.
        kept_from: the time before which retention has dropped records by now.
        project: the dbt project.
    """

    spark: SparkSession
    catalog: Catalog
    settings: Settings
    definitions: Definitions
    kept_from: Callable[[], datetime | None]
    project: Path = DBT_PROJECT

    @property
    def folder(self) -> Path:
        """Folder for everything that dbt writes."""
        return self.settings.home / "dbt" / "rebuild"

    def begin(self, published: Published) -> RebuildState:
        """Go on with the rebuild that has begun, or begin one. The caller holds the lock of the builds.

        It starts from the beginning if models have changed again, if marts with other models were published, or if retention
        has dropped records since, which its next steps could not compute any more.
        """
        begun = rebuild_state.load(self.settings.home)
        if (
            begun is not None
            and (begun.definitions, begun.replaces) == (self.definitions.digest, published.definitions)
            and self._can_compute(begun)
            and {begun.branch, begun.base} <= branches.heads(self.catalog, WITH_INPUTS).keys()
        ):
            # The hours that a model saved are saved in a session.
            begun.done = [step for step in begun.done if step not in self._saves_hours(begun)]
            return begun
        rebuild_state.remove(self.settings.home)
        branches.drop_rebuild(self.spark, self.catalog)
        rebuilt = changed_models(self.settings, published, self.definitions)
        found = RebuildState(
            uuid.uuid4().hex[:12],
            self.definitions.digest,
            published.definitions,
            sorted(rebuilt),
            published.change_seq_to,
            published.watermarks,
            self.kept_from(),
        )
        for branch in (found.base, found.branch):
            branches.create(self.spark, self.catalog, branches.audited_tables(self.catalog), branch)
        for namespace in branches.NAMESPACES_OF_REBUILD:
            self.spark.sql(f"create namespace if not exists {CATALOG}.{namespace}")
        rebuild_state.save(self.settings.home, found)
        return found

    def steps(self, state: RebuildState) -> list[Step]:
        """The steps that are left before the catch-up, in order: each computes some models, or is `STAGING` or `TESTS`."""
        manifest = self._manifest(state)
        needed, _ = needed_to_test(state.rebuilt, manifest)
        ephemeral = {
            name for name, node in self.definitions.nodes.items() if node.materialized == "ephemeral"
        }
        left = [name for name in in_order(needed - ephemeral, manifest) if name not in state.done]
        records = records_after(self.settings, None)
        seconds = durations.estimate(self.settings.home / "dbt", left, records)
        found = [STAGING, *_grouped(left, seconds), TESTS]
        return [step for step in found if not set(step) <= set(state.done)]

    def run_steps(self, state: RebuildState, steps: list[Step], run_id: str) -> Iterator[Build]:
        """Do the steps, and yield the result of each; the last one may have failed.

        Raises:
            SupersededError: the rebuild was ended meanwhile, the dbt project has changed, or retention has dropped records.
        """
        inputs = self._inputs(state)
        for step in steps:
            self._raise_if_ended(state)
            self._raise_if_changed()
            built = self._step(state, step, inputs, run_id)
            if not self._can_compute(state):
                rebuild_state.remove(self.settings.home)
                raise SupersededError(
                    "retention has dropped records during the rebuild: the next one starts from the beginning"
                )
            if built.passed:
                state.done += step
                self._save(state)
                seconds = {node.name: node.seconds for node in built.nodes if node.name in step}
                durations.record(self.settings.home / "dbt", seconds, records_after(self.settings, None))
            yield built
            if not built.passed:
                return
        if CATCH_UP not in state.done:
            self._move_base(state)
            state.done.append(CATCH_UP)
            self._save(state)

    def catch_up(self, state: RebuildState, run_id: str) -> tuple[Build, Inputs]:
        """Take up on the branch what was merged since the base.

        Raises:
            SupersededError: the rebuild was ended meanwhile, the dbt project has changed, or an incremental run is not possible.
        """
        self._raise_if_ended(state)
        self._raise_if_changed()
        if state.next_change_seq_to is not None:  # killed after it
            self._move_base(state)
            self._save(state)
        base = Published(state.change_seq_to, state.watermarks, state.definitions)
        events = read_offsets(self.spark, self.settings, tables.EVENTS)
        inputs = Inputs.of(events, self.settings.limits, base, self.definitions, kept_from=self.kept_from())
        if inputs is None or inputs.change_seq_from is None:
            rebuild_state.remove(self.settings.home)
            raise SupersededError(
                "a watermark went back during the rebuild: the next one starts from the beginning"
            )
        inputs = replace(inputs, rebuild=state.base)
        for table in branches.audited_tables(self.catalog):
            branches.move(self.spark, self.catalog, table, state.branch, state.base)
        with branches.writing_to(self.spark, state.branch, inputs.snapshot_properties(state.id, run_id)):
            built = dbt.build(inputs, self.folder, self.project)
        return built, inputs

    def keep(self, state: RebuildState, inputs: Inputs) -> None:
        """Make a catch-up the base of the next one."""
        state.next_change_seq_to, state.next_watermarks = inputs.change_seq_to, inputs.marks
        self._save(state)
        self._move_base(state)
        self._save(state)

    def publish(self, state: RebuildState, built: Build, inputs: Inputs) -> None:
        """Replace main of all tables by the branch, and end the rebuild. The caller holds the lock of the builds.

        Raises:
            lake.publish.AuditError, lake.publish.PublishConflictError: another run interfered.
            SupersededError: the dbt project has changed.
        """
        self._raise_if_changed()
        publication.publish(
            self.spark,
            self.catalog,
            built.tables,
            state.branch,
            uuid.uuid4().hex,
            inputs.change_seq_to,
            self.definitions.tables,
            replaces=True,
        )
        projects.keep(self.settings.home / "dbt", self.project, self.settings.limits, self.definitions.digest)
        self.end()

    def end(self) -> None:
        """Remove all that a rebuild has written but the published marts."""
        rebuild_state.remove(self.settings.home)
        branches.drop_rebuild(self.spark, self.catalog)

    def _step(self, state: RebuildState, step: Step, inputs: Inputs, run_id: str) -> Build:
        tables_of_step = [self.definitions.nodes[name].table for name in step if step not in (STAGING, TESTS)]
        for table in tables_of_step:
            if table and self.catalog.table_exists(table):
                # What a killed run has committed.
                branches.move(self.spark, self.catalog, table, state.branch, state.base)
        with branches.writing_to(self.spark, state.branch, inputs.snapshot_properties(state.id, run_id)):
            if step == TESTS:
                return dbt.dbt(
                    "test", inputs, self.folder, self.project, *_NO_UNIT_TESTS, "--select", *state.rebuilt
                )
            what = ("resource_type:seed", "config.materialized:stable_view") if step == STAGING else step
            return dbt.dbt("build", inputs, self.folder, self.project, *_NO_TESTS, "--select", *what)

    def _inputs(self, state: RebuildState) -> Inputs:
        """Those of the steps: all records that the marts contain which it started from."""
        published = Published(state.change_seq_to, state.watermarks, state.definitions)
        topics = topics_of(read_offsets(self.spark, self.settings, tables.EVENTS))
        found = Inputs.over_all(published, self.settings.limits)
        return replace(found, kept_from=state.kept_from, trace_topics=topics, rebuild=state.base)

    def _manifest(self, state: RebuildState) -> Manifest:
        found = dbt.manifest(self._inputs(state), self.folder, self.project)
        if found is None:
            raise RuntimeError(f"dbt cannot parse {self.project}: see {self.folder / 'logs' / 'dbt.log'}")
        return found

    def _saves_hours(self, state: RebuildState) -> set[str]:
        nodes = self._manifest(state).nodes.values()
        return {node.name for node in nodes if node.resource_type == "model" and node.config.post_hook}

    def _can_compute(self, state: RebuildState) -> bool:
        """Whether events still has the records that the steps are to read."""
        return CATCH_UP in state.done or state.kept_from == self.kept_from()

    def _move_base(self, state: RebuildState) -> None:
        for table in branches.audited_tables(self.catalog):
            branches.move(self.spark, self.catalog, table, state.base, state.branch)
        if state.next_change_seq_to is not None:
            state.change_seq_to, state.watermarks = state.next_change_seq_to, state.next_watermarks or {}
            state.next_change_seq_to = state.next_watermarks = None

    def _save(self, state: RebuildState) -> None:
        self._raise_if_ended(state)
        rebuild_state.save(self.settings.home, state)

    def _raise_if_ended(self, state: RebuildState) -> None:
        begun = rebuild_state.load(self.settings.home)
        if begun is None or begun.id != state.id:
            raise SupersededError("the rebuild was ended by another job: run it again")

    def _raise_if_changed(self) -> None:
        """Steps of different models must not be published together."""
        now = dbt.definitions(self.settings.limits, self.settings.home / "dbt", self.project)
        if now.digest != self.definitions.digest:
            rebuild_state.remove(self.settings.home)
            raise SupersededError(
                f"{self.project} changed during the rebuild: the next one starts from the beginning"
            )


def _grouped(names: list[str], seconds: dict[str, float]) -> list[Step]:
    """The models in groups that are expected to take a short time; a model of which that is not known is alone."""
    found: list[Step] = []
    in_group = 0.0
    for name in names:
        own = seconds.get(name, MOST_SECONDS)
        if not found or in_group + own > MOST_SECONDS or len(found[-1]) == MOST_MODELS:
            found.append([])
            in_group = 0.0
        found[-1].append(name)
        in_group += own
    return found
