"""`make run` takes a cluster that is somebody's own through the pipeline; what comes of it, all of this folder sees."""

from __future__ import annotations

import os
import subprocess

from sandbox.scenarios import TRACE_TOPICS
from spark_jobs.settings import PROJECT


def test_make_run(world):
    shown = world.made.stdout
    assert "demo: consume success per consumer group and hour" in shown
    assert "sensor-gateway" in shown
    rows = world.table("raw.trace_messages", "cluster", "trace_topic").to_pylist()
    assert {(row["cluster"], row["trace_topic"]) for row in rows} == {
        ("demo", topic) for topic in TRACE_TOPICS
    }


def test_make_run_without_a_cluster_says_what_is_missing(tmp_path):
    environment = os.environ | {"TRACE_HOME": str(tmp_path)}
    environment.pop("TRACE_SETTINGS", None)
    called = subprocess.run(["make", "run"], cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert called.returncode != 0
    assert "make run NAMESRV=host:port" in called.stderr
