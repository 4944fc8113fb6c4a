"""`make demo` processes a cluster; the other tests of this folder use its results."""

from __future__ import annotations

import json
import re
import stat
from contextlib import suppress

from sandbox.scenarios import TRACE_TOPICS
from tests.e2e.world import make


def test_make_demo(world):
    shown = world.demo.stdout
    assert "demo: consume success per consumer group and hour" in shown
    assert "sensor-gateway" in shown
    # Its output is no terminal: a line for each task that takes seconds.
    for task in ("ingest", "build"):
        assert re.search(rf"^  {task} \(\d+ s\)$", shown, re.MULTILINE), shown
    rows = world.table("raw.trace_messages", "cluster", "trace_topic").to_pylist()
    assert {(row["cluster"], row["trace_topic"]) for row in rows} == {
        ("demo", topic) for topic in TRACE_TOPICS
    }
    summary = json.loads((world.settings.home / "demo" / "summary.json").read_text())
    assert summary["raw_rows"] == summary["trace_messages_broker"] == len(rows)
    record = world.record()
    assert summary["sends"] == sum(len(send["msg_ids"]) for send in record.sends if send["traced"])
    assert summary["attempts"] == sum(consume["traced"] for consume in record.consumes)


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
    called = make("run", {"TRACE_HOME": str(tmp_path)})
    assert called.returncode != 0
    assert "make run NAMESRV=host:port" in called.stderr
