"""`make run` processes a cluster; the other tests of this folder use its results."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from contextlib import suppress

from sandbox.scenarios import TRACE_TOPICS
from spark_jobs.process.file_lock import holder
from spark_jobs.settings import PROJECT


def test_make_run(world):
    shown = world.made.stdout
    assert "demo: consume success per consumer group and hour" in shown
    assert "sensor-gateway" in shown
    rows = world.table("raw.trace_messages", "cluster", "trace_topic").to_pylist()
    assert {(row["cluster"], row["trace_topic"]) for row in rows} == {
        ("demo", topic) for topic in TRACE_TOPICS
    }


def test_files_of_a_run_are_private(world):
    """Keys of messages are in the tables, the logs and the files of the broker."""
    home = world.settings.home
    found = [home, *home.rglob("*")]
    assert {path.name for path in found} >= {
        "catalog.db",
        "trace_messages",
        "airflow.db",
        "trace_ingest.log",
        "commitlog",
    }
    open_to_others = []
    for path in found:
        with suppress(FileNotFoundError):  # the broker deletes temporary files
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & 0o077:
                open_to_others.append(f"{stat.S_IMODE(mode):o} {path}")
    assert open_to_others == []


def test_make_run_without_a_cluster_says_what_is_missing(tmp_path):
    environment = os.environ | {"TRACE_HOME": str(tmp_path)}
    environment.pop("TRACE_SETTINGS", None)
    called = subprocess.run(["make", "run"], cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert called.returncode != 0
    assert "make run NAMESRV=host:port" in called.stderr


def test_two_concurrent_builds_of_the_marts_run_one_after_the_other(world):
    """Both by hand: no pool of Airflow's holds them apart."""

    def build(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.jobs.marts", *arguments],
            env=world.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    first = build("--run-id", "one", "--full-refresh")
    until = time.monotonic() + 120
    while (builder := holder(world.settings.home / "dbt" / "build.lock")) is None:
        assert first.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    assert builder.pid == first.pid
    second = build("--run-id", "other")
    outputs = [process.communicate(timeout=1200)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), "\n".join(outputs)
    said = re.search(
        r"`marts` \(pid (\d+), since \d\d:\d\d:\d\d\) builds the marts: waiting for it", outputs[1]
    )
    assert said
    assert int(said[1]) == first.pid
