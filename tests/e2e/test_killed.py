"""After any kill the next `make demo` continues: nothing is lost, duplicated or left running."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter

import pytest

from deploy import show
from spark_jobs.settings import Settings
from tests.e2e.demos import SECONDS, Demo, assert_none_left, data_files
from tests.records import read_record


@pytest.mark.timeout(2400)
def test_killed_in_the_middle(tmp_path):
    home = tmp_path / "home"

    demo = Demo(home)
    demo.wait_for(lambda: "a real RocketMQ" in demo.output)
    demo.interrupt()

    demo = Demo(home)
    demo.wait_for(lambda: data_files(home))
    demo.process.kill()
    demo.process.wait()
    assert_none_left(home)

    demo = Demo(home)
    os.kill(demo.wait_for_merge(), signal.SIGKILL)  # Airflow tries the task again
    assert demo.process.wait(2 * SECONDS) == 0, demo.output
    assert_none_left(home)

    record = read_record(home / "sandbox" / "traffic")
    assert len(record.runs) >= 2
    found: dict[str, Counter[str]] = {}
    for row in show.rows(
        Settings(home=home), "events.trace_records", "trace_topic", "record_type"
    ).to_pylist():
        found.setdefault(row["trace_topic"], Counter())[row["record_type"]] += 1
    assert found == record.expected()
    summary = json.loads((home / "demo" / "summary.json").read_text())
    assert summary["raw_rows"] == summary["trace_messages_broker"]
    assert summary["sends"] == sum(len(send["msg_ids"]) for send in record.sends if send["traced"])
    assert summary["attempts"] == sum(consume["traced"] for consume in record.consumes)
