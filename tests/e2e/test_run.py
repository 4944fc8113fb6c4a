"""`make run` takes a cluster that is somebody's own through the same pipeline."""

from __future__ import annotations

import os
import subprocess

from sandbox import admin, show
from sandbox.scenarios import CUSTOM_TRACE_TOPIC
from spark_jobs.settings import PROJECT, Settings


def test_make_run(world, tmp_path):
    called = subprocess.run(
        ["make", "run", f"NAMESRV={world.sandbox.namesrv}", f"TOPIC={CUSTOM_TRACE_TOPIC}", "CLUSTER=mine"],
        cwd=PROJECT,
        env=os.environ | {"TRACE_HOME": str(tmp_path), "TRACE_SETTINGS": world.environment["TRACE_SETTINGS"]},
        capture_output=True,
        text=True,
    )
    assert called.returncode == 0, called.stdout + called.stderr
    assert "mine: consume success per consumer group and hour" in called.stdout
    assert "sensor-gateway" in called.stdout

    rows = show.rows(Settings(home=tmp_path), "raw.trace_messages", "cluster", "trace_topic").to_pylist()
    assert {(row["cluster"], row["trace_topic"]) for row in rows} == {("mine", CUSTOM_TRACE_TOPIC)}
    offsets = admin.trace_offsets(world.sandbox.namesrv, [CUSTOM_TRACE_TOPIC])[CUSTOM_TRACE_TOPIC]
    assert len(rows) == sum(high - low for queues in offsets.values() for low, high in queues.values()) > 0


def test_make_run_without_a_cluster_says_what_is_missing(tmp_path):
    environment = os.environ | {"TRACE_HOME": str(tmp_path)}
    environment.pop("TRACE_SETTINGS", None)
    called = subprocess.run(["make", "run"], cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert called.returncode != 0
    assert "make run NAMESRV=host:port" in called.stderr
