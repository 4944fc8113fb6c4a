"""With a real scheduler: new records start the marts, and nothing else does."""

from __future__ import annotations

import time

from sandbox import scheduler
from sandbox.scheduler import Airflow
from sandbox.traffic import generate

RUN_SECONDS = 600


def started_by_records(airflow: Airflow) -> list[str]:
    return [r["dag_run_id"] for r in airflow.runs("trace_marts") if r["run_type"] == "asset_triggered"]


def ingested(airflow: Airflow, run: str) -> dict[str, str]:
    """The states of the tasks of a run of `trace_ingest`, when it has ended well."""
    assert airflow.wait("trace_ingest", run, RUN_SECONDS) == "success"
    return airflow.task_states("trace_ingest", run)


def first_run(airflow: Airflow) -> str:
    """The run that the schedule starts as soon as the DAG is not paused."""
    until = time.monotonic() + 60
    while not (runs := [r for r in airflow.runs("trace_ingest") if r["run_type"] == "scheduled"]):
        assert time.monotonic() < until, "trace_ingest was not scheduled"
        time.sleep(1)
    return runs[0]["dag_run_id"]


def test_trace_ingest_starts_trace_marts_when_records_came_and_only_then(world):
    with scheduler.running(world.environment) as airflow:
        until = time.monotonic() + 60
        while not {"trace_ingest", "trace_marts"} <= airflow.dags():
            assert time.monotonic() < until, "the DAGs were not parsed"
            time.sleep(1)
        airflow.unpause("trace_marts")
        airflow.unpause("trace_ingest")

        assert ingested(airflow, first_run(airflow))["announce"] == "skipped"
        time.sleep(10)
        assert started_by_records(airflow) == []

        generate(world.sandbox.namesrv, 20, world.traffic)
        ingested(airflow, airflow.trigger("trace_ingest"))
        until = time.monotonic() + RUN_SECONDS  # a run that the timer started is built to its end first
        while not (started := started_by_records(airflow)):
            assert time.monotonic() < until, "records came, and no run of trace_marts started"
            time.sleep(1)
        assert airflow.wait("trace_marts", started[0], RUN_SECONDS) == "success"
