"""One build of the marts over hand-made events, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from spark_jobs.lake import tables
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.mart_build import dbt
from spark_jobs.mart_build.build import build_and_publish
from spark_jobs.mart_build.dbt import Build
from spark_jobs.mart_build.inputs import Inputs, inputs_now
from spark_jobs.serving import files
from spark_jobs.settings import Settings
from tests import lakes
from tests.dbt.story import write_events


@pytest.fixture(scope="package")
def empty_lake(spark: SparkSession, settings: Settings) -> Iterator[SparkSession]:
    """A lake with no row, that the tests of this folder write in turn."""
    lakes.empty(spark, settings)
    tables.ensure(spark)
    yield spark
    lakes.empty(spark, settings)


@pytest.fixture(scope="package")
def state(settings: Settings) -> Path:
    return settings.home / "dbt"


@pytest.fixture(scope="package")
def story(empty_lake: SparkSession) -> SparkSession:
    """The events of `story.py` are in the lake."""
    write_events(empty_lake)
    return empty_lake


@pytest.fixture(scope="package")
def inputs(story: SparkSession, settings: Settings, state: Path) -> Inputs:
    definitions = dbt.definitions(settings.limits, state)
    return inputs_now(settings, read_offsets(story, settings, tables.EVENTS), None, definitions)


@pytest.fixture(scope="package")
def built(story: SparkSession, catalog: Catalog, inputs: Inputs, state: Path) -> Build:
    """The marts over the story, published."""
    done = build_and_publish(story, catalog, inputs, state)
    assert done.passed, (done.error, done.failures)
    return done


@pytest.fixture(scope="package")
def marts(story: SparkSession, built: Build) -> SparkSession:
    """The session, with the marts of the story on main."""
    return story


@pytest.fixture
def served(marts, settings):
    """The settings of the lake, without any serving file before and after."""
    files.remove_all(settings)
    yield settings
    files.remove_all(settings)
