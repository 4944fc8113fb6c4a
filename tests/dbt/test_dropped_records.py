"""Messages whose records retention has dropped stay in the marts as they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pyspark.sql import Row

from spark_jobs import tables
from spark_jobs.publish import branches, models
from spark_jobs.publish.inputs import DBT_PROJECT
from spark_jobs.publish.marts import recover
from tests.dbt.events import NOON, at
from tests.dbt.story import DAY, HOUR

WIDE = "lasting"


@pytest.fixture
def wide_gap(marts):
    """A gap that lasts all of the story's day was found since the marts were built."""
    gap = Row(*tables.INGEST_GAPS.column_names)(
        *("test", "RMQ_SYS_TRACE_TOPIC", "broker-a", 0, 0, 700, 800),
        *(NOON - timedelta(days=1), at(DAY), at(DAY), WIDE),
    )
    marts.createDataFrame([gap], tables.INGEST_GAPS.schema).writeTo(tables.INGEST_GAPS.full_name).append()
    yield
    marts.sql(f"delete from {tables.INGEST_GAPS.full_name} where run_id = '{WIDE}'")


def test_a_context_that_changes_makes_none_of_them_anew(marts, catalog, inputs, state, wide_gap):
    unconsumed = {
        row.msg_id: row.hour
        for row in marts.table("lake.marts.orphaned_messages").where("cluster = 'test'").collect()
    }
    noon = at(12 * HOUR)
    assert min(unconsumed.values()) < noon < max(unconsumed.values())

    def affected(kept_from: datetime | None) -> set[str]:
        """The messages that the next run would make anew."""
        run = replace(inputs, change_seq_from=inputs.change_seq_to, kept_from=kept_from)
        branch = f"{branches.PREFIX}dropped"
        branches.create(marts, catalog, branches.audited_tables(catalog), branch)
        try:
            with branches.writing_to(marts, branch, {}):
                done = models.dbt("run", run, state, DBT_PROJECT, "--select", "+int_affected_messages")
            assert done.passed, (done.error, done.failures)
            return {row.life for row in marts.table("lake.changes.int_affected_messages").collect()}
        finally:
            recover(marts, catalog)

    assert affected(None) == set(unconsumed)
    assert affected(noon) == {msg_id for msg_id, hour in unconsumed.items() if hour >= noon}
