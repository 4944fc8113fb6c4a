"""Ctrl-C at each stage of `make demo`; `make soak` alone runs this."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from tests.e2e.demos import SECONDS, Demo, assert_none_left, jobs_of, merges


def test_interrupted_at_each_stage(tmp_path, record_property):
    """One home takes all of it, and the run after that has every message of the broker."""
    home = tmp_path / "home"
    traffic = home / "sandbox" / "traffic"

    def runs() -> int:
        """The runs of the traffic that have begun, interrupted ones included."""
        return len(list(traffic.glob("run-*")))

    stages: dict[str, Callable[[Demo], object]] = {
        "broker starts": lambda demo: "settings of the demo" in demo.output,
        "broker runs": lambda demo: "a real RocketMQ" in demo.output,
        "traffic": lambda demo: runs() > before,
        "Airflow starts": lambda demo: "airflow dags test trace_ingest" in demo.output,
        "ingest starts": lambda demo: jobs_of(home, "ingest"),
        "merge": lambda demo: merges(home),
        "marts": lambda demo: "airflow dags test trace_marts" in demo.output and jobs_of(home, "marts"),
    }
    for stage, reached in stages.items():
        before = runs()
        demo = Demo(home)
        demo.wait_for(partial(reached, demo))
        demo.interrupt()
        record_property("counts", {"stage": stage, "interrupted": 1})
    demo = Demo(home)
    assert demo.process.wait(2 * SECONDS) == 0, demo.output
    assert_none_left(home)
    summary = json.loads((home / "demo" / "summary.json").read_text())
    assert summary["raw_rows"] == summary["trace_messages_broker"]
