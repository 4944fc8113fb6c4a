"""Messages whose records retention has dropped stay in the marts as they are, unless they are erased."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pyspark.sql import Row

from spark_jobs.erasure.marts import erase_from_marts
from spark_jobs.erasure.rules import Kind, Rule, digest
from spark_jobs.lake import tables
from spark_jobs.mart_build import branches, dbt
from tests import lakes
from tests.dbt.events import NOON, at
from tests.dbt.story import DAY, HOUR
from tests.soak import IS_SOAK

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


def test_a_changed_context_rewrites_no_kept_row(marts, catalog, settings, inputs, state, wide_gap):
    unconsumed = {
        row.msg_id: row.hour
        for row in marts.table("lake.marts.orphaned_messages").where("cluster = 'test'").collect()
    }
    noon = at(12 * HOUR)
    assert min(unconsumed.values()) < noon < max(unconsumed.values())

    def affected(kept_from: datetime | None) -> set[str]:
        """The messages that the next run would compute again."""
        run = replace(inputs, change_seq_from=inputs.change_seq_to, kept_from=kept_from)
        with lakes.on_a_branch(marts, catalog, settings):
            done = dbt.dbt("run", run, state, only=("int_ingest_gaps", "int_affected_messages"))
            assert done.passed, (done.error, done.failures)
            return {row.message_key for row in marts.table("lake.changes.int_affected_messages").collect()}

    assert affected(None) == set(unconsumed)
    assert affected(noon) == {msg_id for msg_id, hour in unconsumed.items() if hour >= noon}


def rows_of_the_marts(catalog, branch: str = "main") -> dict[str, set[str]]:
    return {table: set(lakes.rows(catalog, table, branch)) for table in branches.audited_tables(catalog)}


ERASED = [
    (Kind.MSG_ID, "ok", "'ok'", 3),
    (Kind.GROUP, "everyone", "'everyone'", 10),
    (Kind.KEY, "customer-4711", "'second_time'", 3),  # the message that has the key
]


def test_an_erasure_takes_the_kept_rows_that_name_it_and_no_others(marts, catalog, settings):
    """One after the other; nothing is taken by those of another cluster."""
    everywhere = branches.audited_tables(catalog)
    published = rows_of_the_marts(catalog)
    with lakes.on_a_branch(marts, catalog, settings) as branch:
        marts.sql(
            "update lake.marts.fct_sends set keys = 'order-1 customer-4711' where msg_id = 'second_time'"
        )
        before = rows_of_the_marts(catalog, branch)
        for kind, text, _, _ in ERASED if IS_SOAK else ERASED[:1]:
            erase_from_marts(marts, everywhere, Rule("other", kind, "salt", digest("salt", text)))
        assert rows_of_the_marts(catalog, branch) == before
        for kind, text, word, tables_with_it in ERASED:
            erase_from_marts(marts, everywhere, Rule("test", kind, "salt", digest("salt", text)))
            after = rows_of_the_marts(catalog, branch)
            named = {table: {row for row in rows if word in row} for table, rows in before.items()}
            assert sum(bool(rows) for rows in named.values()) >= tables_with_it, kind
            assert {table: rows - after[table] for table, rows in before.items()} == named, kind
            before = after
    assert rows_of_the_marts(catalog) == published
