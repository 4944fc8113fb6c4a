"""One build of the marts: finish an interrupted publication, build and test on a branch, publish if all passed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from spark_jobs.mart_build import branches, dbt, projects, publication, rebuild_state, views
from spark_jobs.mart_build.dbt import Build
from spark_jobs.mart_build.definitions import DBT_PROJECT, ProjectChangedError
from spark_jobs.mart_build.inputs import Inputs, Published
from spark_jobs.settings import Settings


def recover(spark: SparkSession, catalog: Catalog, settings: Settings) -> list[str]:
    """Finish the publications of an earlier run that was killed and drop its branches; return the publication ids.

    What a rebuild has written is dropped, too, unless it goes on.
    """
    finished = publication.roll_forward(spark, catalog)
    _clear(spark, catalog, rebuilding=rebuild_state.goes_on(settings.home, Published.of(settings)))
    return finished


def build_and_publish(
    spark: SparkSession,
    catalog: Catalog,
    inputs: Inputs,
    state: Path,
    project: Path = DBT_PROJECT,
    run_id: str = "",
    audit: Callable[[Build, str], list[str]] | None = None,
    first: Callable[[], None] | None = None,
) -> Build:
    """Build and test on a branch of every mart, and publish if all passed.

    After a failure main is unchanged. The branches are dropped in either case.

    Args:
        spark: the session.
        catalog: the same catalog through pyiceberg.
        inputs: the inputs of the build.
        state: folder for everything that dbt writes.
        project: the dbt project.
        run_id: written to the snapshots that are published.
        audit: checks the build and its branch; returns the reasons not to publish it.
        first: changes the tables on the branch before the models are built.

    Raises:
        lake.publish.AuditError, lake.publish.PublishConflictError: another run interfered.
        ProjectChangedError: what defines the rows changed meanwhile, so some tables are of the files before.
    """
    definitions = dbt.definitions(inputs.limits, state, project)
    if inputs.definitions not in ("", definitions.digest):
        raise ProjectChangedError(f"{project} has changed since the build was planned: run the job again")
    publication_id = uuid.uuid4().hex
    branch = f"{branches.PREFIX}{publication_id[:12]}"
    branches.create(spark, catalog, branches.audited_tables(catalog), branch)
    with branches.writing_to(spark, branch, inputs.snapshot_properties(publication_id, run_id)):
        if first is not None:
            first()
        built = dbt.build(inputs, state, project, views.digests(spark))
    if audit is not None:
        built = replace(built, refused=audit(built, branch))
    if built.passed:
        if dbt.definitions(inputs.limits, state, project).digest != definitions.digest:
            raise ProjectChangedError(
                f"{project} changed while the marts were built: nothing was published; run the job again"
            )
        publication.publish(
            spark, catalog, built.tables, branch, publication_id, inputs.change_seq_to, definitions.tables
        )
        projects.keep(state, project, inputs.limits, definitions.digest)
    _clear(spark, catalog)
    return built


def _clear(spark: SparkSession, catalog: Catalog, rebuilding: bool = True) -> None:
    prefixes = (branches.PREFIX,) if rebuilding else (branches.PREFIX, rebuild_state.BRANCH_PREFIX)
    branches.drop_all(spark, catalog, branches.audited_tables(catalog), prefixes)
    branches.drop_relations(spark, catalog, [branches.WORKING_NAMESPACE])
    if not rebuilding:
        branches.drop_relations(spark, catalog, branches.NAMESPACES_OF_REBUILD)


def row_counts(catalog: Catalog, tables: list[str]) -> dict[str, int]:
    """Number of rows of each table on main, from the snapshot summary."""
    counts = {}
    for table in tables:
        last = catalog.load_table(table).current_snapshot()
        counts[table] = int(last.summary["total-records"] or 0) if last and last.summary else 0
    return counts
