"""`make run` and `make demo`: how they end in the middle, how the next one goes on, and what it shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess

from sandbox import pipeline
from sandbox.scenarios import TRACE_TOPICS
from spark_jobs.settings import PROJECT


def test_whatever_ends_a_run_nothing_is_left_running(world):
    assert world.killed.code == -signal.SIGKILL
    assert world.interrupted.code != 0
    assert pipeline.STOPPED in world.interrupted.output
    assert "Traceback" not in world.interrupted.output
    assert world.killed.left == world.interrupted.left == world.demo.left == {}


def test_the_next_one_goes_on_though_a_spark_job_of_it_dies(world):
    """That nothing is lost or doubled, the other tests of this folder say."""
    assert world.demo.code == 0
    assert "demo: consume success per consumer group and hour" in world.demo.output
    assert "sensor-gateway" in world.demo.output
    rows = world.table("raw.trace_messages", "cluster", "trace_topic").to_pylist()
    assert {(row["cluster"], row["trace_topic"]) for row in rows} == {
        ("demo", topic) for topic in TRACE_TOPICS
    }
    record = world.record()
    summary = json.loads((world.settings.home / "demo" / "summary.json").read_text())
    assert summary["raw_rows"] == summary["trace_messages_broker"] > 0
    assert summary["sends"] == sum(len(send["msg_ids"]) for send in record.sends if send["traced"])
    assert summary["attempts"] == sum(consume["traced"] for consume in record.consumes)


def test_make_run_without_a_cluster_says_what_is_missing(tmp_path):
    environment = os.environ | {"TRACE_HOME": str(tmp_path)}
    environment.pop("TRACE_SETTINGS", None)
    called = subprocess.run(["make", "run"], cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert called.returncode != 0
    assert "make run NAMESRV=host:port" in called.stderr
