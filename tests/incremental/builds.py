"""A build of the marts over what events holds, and its inputs."""

from __future__ import annotations

from spark_jobs.lake import tables
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.mart_build import dbt
from spark_jobs.mart_build.build import build_and_publish
from spark_jobs.mart_build.inputs import Published, inputs_now


def build(spark, catalog, settings, state, **how):
    events = read_offsets(spark, settings, tables.EVENTS)
    definitions = dbt.definitions(settings.limits, state)
    inputs = inputs_now(settings, events, Published.of(settings), definitions, **how)
    done = build_and_publish(spark, catalog, inputs, state)
    assert done.passed, (done.error, done.failures)
    return inputs
