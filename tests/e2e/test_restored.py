"""A backup that is made while Airflow runs the jobs is restored elsewhere, and the pipeline goes on there. `make soak` alone."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from sandbox import admin, proof
from sandbox.scenarios import TRACE_TOPICS
from sandbox.traffic import generate
from spark_jobs.backup import folder
from spark_jobs.settings import Settings
from tests.e2e.demos import merges
from tests.e2e.world import make, run_variables


def runs_of(airflow_database: Path) -> set[str]:
    with closing(sqlite3.connect(f"file:{airflow_database}?mode=ro", uri=True)) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        return {run for (run,) in database.execute("select run_id from dag_run")}


@pytest.mark.timeout(1800)
def test_the_pipeline_goes_on_from_a_back_up(world, tmp_path):
    """What was sent after the backup is read from the brokers; nothing is lost and nothing is doubled."""
    names = ("TRACE_HOME", "TRACE_SETTINGS", "TRACE_SPARK__CONF")
    environment = {name: world.environment[name] for name in names}
    generate(world.sandbox.namesrv, 20, world.traffic)
    ended, backups = [], tmp_path / "backups"
    run = threading.Thread(target=lambda: ended.append(make("run", environment, *run_variables(world))))
    before = runs_of(world.settings.home / "airflow" / "airflow.db")
    run.start()
    while run.is_alive() and not merges(world.settings.home):
        time.sleep(0.1)
    assert run.is_alive(), "the run ended without a merge"
    done = make("backup", environment, f"TO={backups}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert run.is_alive(), "the backup was to be made during the run"
    run.join()
    assert ended[0].returncode == 0, ended[0].stdout + ended[0].stderr

    (made,) = folder.folders_of(backups)
    backed_up = runs_of(made / "home" / "airflow" / "airflow.db")
    assert backed_up > before
    home = tmp_path / "restored"
    elsewhere = environment | {"TRACE_HOME": str(home)}
    done = make("restore", elsewhere, f"FROM={backups}")
    assert done.returncode == 0, done.stdout + done.stderr
    generate(world.sandbox.namesrv, 20, world.traffic)
    done = make("run", elsewhere, *run_variables(world))
    assert done.returncode == 0, done.stdout + done.stderr
    settings = Settings(home=home, clusters=world.settings.clusters)
    proof.proof(settings, "demo", admin.trace_offsets(world.sandbox.namesrv, TRACE_TOPICS))
    assert runs_of(home / "airflow" / "airflow.db") > backed_up
    key = Path("airflow") / "fernet-key"
    assert (home / key).read_bytes() == (world.settings.home / key).read_bytes()
