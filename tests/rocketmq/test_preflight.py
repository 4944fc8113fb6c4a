"""What `make run` verifies before it starts Airflow: one line per cluster that cannot be read."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from deploy.preflight import exit_if_unreadable
from spark_jobs.settings import PROJECT, Cluster, Settings

AWAY = Cluster(name="away", namesrv=["127.0.0.1:1"])


@pytest.fixture
def read(written, tmp_path):
    """Verify a home with these clusters; `good` is one whose topic can be read."""

    def check(*clusters: Cluster) -> None:
        exit_if_unreadable(Settings(home=tmp_path / "home", clusters=list(clusters)))

    return check


def cluster(written, **values) -> Cluster:
    return Cluster.model_validate(
        {"name": "good", "namesrv": [written.sandbox.namesrv], "trace_topics": ["three"]} | values
    )


def test_a_cluster_that_can_be_read(read, written, capsys):
    read(cluster(written))
    assert capsys.readouterr() == ("", "")


def test_a_topic_that_is_missing(read, written):
    with pytest.raises(SystemExit) as ended:
        read(cluster(written, trace_topics=["absent"]))
    (line,) = str(ended.value).splitlines()
    assert line.startswith("failed: cluster good, topic absent")


def test_credentials_that_are_missing(read, written):
    with pytest.raises(SystemExit, match=r"^failed: cluster good: .*NOBODY_ACCESS_KEY") as ended:
        read(cluster(written, credentials_env="NOBODY"))
    assert len(str(ended.value).splitlines()) == 1


def test_credentials_in_an_airflow_connection_are_left_to_the_tasks(read, written, capsys):
    read(cluster(written, credentials_env="NOBODY", airflow_conn_id="rocketmq_prod"))
    assert capsys.readouterr() == ("", "")


def test_one_cluster_of_two(read, written, capsys):
    read(AWAY, cluster(written))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: cluster away, topic ")
    assert "127.0.0.1:1" in line


def test_make_run_of_a_nameserver_that_is_away(tmp_path):
    """Within seconds, where the DAG runs take minutes; nothing of Airflow is created."""
    home = tmp_path / "home"
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "deploy.run_once", "--namesrv", "127.0.0.1:1", "--cluster", "prod"],
        env=os.environ | {"TRACE_HOME": str(home), "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )
    assert time.monotonic() - started < 40  # 3 s on a machine that does nothing else
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("failed: cluster prod, topic RMQ_SYS_TRACE_TOPIC: ")
    assert "127.0.0.1:1" in line
    assert "Check the addresses" in line
    assert not (home / "airflow").exists()
