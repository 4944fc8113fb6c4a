"""A run of the marts without their tests, which take longer than the models and do not change them."""

from __future__ import annotations

import uuid

from pyspark.sql import SparkSession

from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.mart_build import branches, dbt, publication
from spark_jobs.mart_build.build import recover
from spark_jobs.mart_build.definitions import DBT_PROJECT
from spark_jobs.mart_build.inputs import Published, inputs_now
from spark_jobs.settings import Settings

_WITHOUT_TESTS = ("--exclude-resource-types", "unit_test", "test")


def refresh(spark: SparkSession, settings: Settings, full_refresh: bool, *options: str) -> None:
    """Build and publish what is new, or everything.

    Args:
        spark: the session.
        settings: of the lake.
        full_refresh: everything.
        *options: of `dbt build`, such as a selection of models.
    """
    catalog = lake(settings)
    recover(spark, catalog, settings)
    events = read_offsets(spark, settings, tables.EVENTS)
    inputs = inputs_now(
        settings,
        events,
        Published.of(settings),
        dbt.definitions(settings.limits, settings.home / "dbt"),
        full_refresh=full_refresh,
    )
    assert inputs is not None
    assert (inputs.change_seq_from is None) == full_refresh
    publication_id = uuid.uuid4().hex
    branch = f"{branches.PREFIX}{publication_id[:12]}"
    branches.create(spark, catalog, branches.audited_tables(catalog), branch)
    with branches.writing_to(spark, branch, inputs.snapshot_properties(publication_id, "")):
        done = dbt.dbt("build", inputs, settings.home / "dbt", DBT_PROJECT, *_WITHOUT_TESTS, *options)
    assert done.passed, (done.error, done.failures)
    publication.publish(spark, catalog, done.tables, branch, publication_id, inputs.change_seq_to)
    recover(spark, catalog, settings)
