"""`make run` says which DAG failed, also if the marts cannot be shown."""

from __future__ import annotations

import pytest

from deploy import airflow_environment, run_once, show
from spark_jobs.settings import Settings


@pytest.fixture
def settings(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(run_once, "prepare", lambda settings: {})

    def damaged(settings: Settings) -> None:
        raise OSError("the catalog is away")

    monkeypatch.setattr(show, "marts", damaged)
    return Settings(home=tmp_path)


def test_the_message_of_the_dag_that_failed_is_shown(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(
        run_once, "_run_dag", lambda dag, *_: "DAG trace_marts failed: …" if "marts" in dag else None
    )
    with (tmp_path / "lock").open("w") as lock, pytest.raises(SystemExit, match="DAG trace_marts failed"):
        run_once.run(settings, lock)


def test_without_a_failed_dag_the_error_is_that_of_the_marts(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(run_once, "_run_dag", lambda *_: None)
    with (tmp_path / "lock").open("w") as lock, pytest.raises(OSError, match="the catalog is away"):
        run_once.run(settings, lock)


def test_a_pool_that_is_new_is_created_in_an_existing_home(tmp_path, monkeypatch):
    """Airflow would never schedule the tasks of a pool that does not exist."""
    done: list[int] = []
    monkeypatch.setattr(airflow_environment, "migrate", lambda environment: done.append(1))
    settings = Settings(home=tmp_path)
    for _ in range(2):
        airflow_environment.prepare(settings)
    assert len(done) == 1
    monkeypatch.setattr(airflow_environment, "POOLS", airflow_environment.POOLS | {"new": {"slots": 1}})
    airflow_environment.prepare(settings)
    assert len(done) == 2
