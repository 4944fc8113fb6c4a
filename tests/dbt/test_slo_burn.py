"""Facts are read for the indicators that an objective names, and for no others; the burn itself is the model's unit test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.mart_build import branches, dbt
from spark_jobs.mart_build.definitions import DBT_PROJECT

THREE_DAYS = 259200
SEED = "slo_objectives"
# Of a whole cluster, by the name of the indicator.
EVENTS = {
    "consume_success": "select count_if(has_end) from lake.marts.fct_consume_attempts where cluster = 'test'",
    "delivery_success": "select count_if(outcome in ('succeeded', 'exhausted', 'not_returned')) "
    "from lake.marts.fct_deliveries where cluster = 'test'",
    "end_to_end_latency": "select count(end_to_end_ms) from lake.marts.fct_deliveries where cluster = 'test'",
    "send_latency": "select count(cost_ms) from lake.marts.fct_sends where cluster = 'test'",
}


@pytest.fixture
def burn_of(marts: SparkSession, catalog, inputs, state, tmp_path: Path):
    """Builds `slo_burn` with one objective for each of the indicators; returns its rows of three days by indicator."""
    project = tmp_path / "dbt_project"
    shutil.copytree(DBT_PROJECT, project)
    seed = project / "seeds" / f"{SEED}.csv"
    head = seed.read_text().splitlines()[0]
    main = branches.heads(catalog, "marts.slo_burn")["main"]

    def build(*indicators: str) -> dict[str, int]:
        rows = [
            f"test,Ann's {name},{name},,,0.9,30,{100 if 'latency' in name else ''}," for name in indicators
        ]
        seed.write_text("\n".join([head, *rows]) + "\n")
        done = dbt.dbt(
            "build", inputs, state, project, "--select", SEED, "slo_burn", "--exclude", "test_type:unit"
        )
        assert done.passed, (done.error, [(node.name, node.message) for node in done.failures])
        found = marts.table("lake.marts.slo_burn").where(f"long_seconds = {THREE_DAYS}").collect()
        return {row.indicator: row.long_events for row in found}

    yield build
    dbt.dbt("seed", inputs, state, DBT_PROJECT, "--select", SEED)
    marts.sql(f"call lake.system.set_current_snapshot('lake.marts.slo_burn', {main})")


def test_every_event_of_a_stated_indicator_counts(burn_of, marts):
    expected = {name: marts.sql(query).first()[0] for name, query in EVENTS.items()}
    assert min(expected.values()) > 0
    assert burn_of(*EVENTS) == expected
    assert burn_of("send_latency") == {"send_latency": expected["send_latency"]}
    assert burn_of() == {}
