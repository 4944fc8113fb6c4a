"""An operator that starts Spark only if the job without Spark says that there is work."""

from __future__ import annotations

import time
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.process.exit_codes import WORK

JOB = "tests.plugins.idle_job"


@pytest.fixture
def submitted(airflow_home, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The operators that submitted their job; Spark itself is in tests/e2e."""
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    found: list[object] = []
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda self, context: found.append(self))
    return found


def operator(what: str) -> Any:
    from plugins.idle_operator import SparkUnlessIdleOperator

    return SparkUnlessIdleOperator(
        task_id="build",
        idle_job=JOB,
        application="job.py",
        application_args=["--run-id", what],
        env_vars={"IDLE_SECRET": "of the task"},
    )


@pytest.mark.parametrize(("code", "starts"), [(0, 0), (WORK, 1), (1, 1)])
def test_spark_is_started_unless_the_job_without_it_has_done_all(
    submitted: list[object], capsys: pytest.CaptureFixture[str], code: int, starts: int
):
    operator(str(code)).execute({})
    assert len(submitted) == starts
    log = capsys.readouterr().out
    assert f"got --run-id {code} of the task" in log
    assert (f"{JOB} ended with 1" in log) == (code == 1)


@pytest.mark.parametrize(
    ("run_type", "looks"), [("asset_triggered", False), ("scheduled", True), ("manual", True)]
)
def test_nobody_looks_for_messages_that_have_started_the_run(
    submitted: list[object], capsys: pytest.CaptureFixture[str], run_type: str, looks: bool
):
    from plugins.idle_operator import IngestOperator

    ingest = IngestOperator(
        task_id="ingest", idle_job=JOB, application="job.py", application_args=["--run-id", "0"]
    )
    context: Any = {
        "dag_run": SimpleNamespace(run_type=run_type),
        "ti": SimpleNamespace(xcom_push=lambda *_: None),
    }
    with pytest.raises(ValueError, match="Expecting value"):  # no job has written the failures
        ingest.execute(context)
    assert ("got --run-id 0" in capsys.readouterr().out) == looks
    assert submitted == [ingest]


def test_a_job_that_hangs_is_killed_and_spark_is_started(
    submitted: list[object], monkeypatch: pytest.MonkeyPatch
):
    from plugins import idle_operator

    monkeypatch.setattr(idle_operator, "SECONDS", 1)
    hanging = operator("hangs")
    hanging.execute({})
    assert submitted == [hanging]
    assert hanging._process.poll() is not None


def test_a_task_that_is_ended_meanwhile_starts_no_spark(
    submitted: list[object], monkeypatch: pytest.MonkeyPatch
):
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk.exceptions import AirflowException

    monkeypatch.setattr(SparkSubmitOperator, "on_kill", lambda self: None)  # it has no hook yet
    ended = operator("hangs")

    def kill() -> None:
        while ended._process is None:
            time.sleep(0.01)
        ended.on_kill()

    killer = Thread(target=kill)
    killer.start()
    with pytest.raises(AirflowException, match="was ended"):
        ended.execute({})
    killer.join()
    assert submitted == []
    assert ended._process.poll() is not None


def test_the_arguments_are_templates(airflow_home):
    assert {"application_args", "env_vars"} <= set(operator("0").template_fields)


@pytest.mark.parametrize(
    ("dag", "answer", "builds"),
    [
        (None, None, False),
        ("trace_marts", SimpleNamespace(is_paused=False), True),
        ("trace_marts", SimpleNamespace(is_paused=True), False),
        ("trace_marts", None, False),
    ],
    ids=["not asked to", "not paused", "paused", "not parsed yet"],
)
def test_the_marts_are_built_with_the_ingest_unless_their_dag_is_paused(
    submitted: list[object], dag: str | None, answer: object, builds: bool
):
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse

    from plugins.idle_operator import IngestOperator

    def get_dag(dag_id: str) -> object:
        assert dag_id == "trace_marts"
        if answer is None:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
        return answer

    ingest = IngestOperator(
        task_id="ingest", idle_job=JOB, application="job.py", application_args=[], with_marts_of=dag
    )
    context: Any = {
        "dag_run": SimpleNamespace(run_type="asset_triggered"),
        "ti": SimpleNamespace(xcom_push=lambda *_: None, get_dag=get_dag),
    }
    with pytest.raises(ValueError, match="Expecting value"):  # no job has written the failures
        ingest.execute(context)
    assert ("--marts" in ingest.application_args) == builds
