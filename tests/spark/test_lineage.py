"""OpenLineage: a sink receives what was read and written; one that is away or mute fails no job."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from spark_jobs.settings import PROJECT
from tests.lineage_sink import names, wrote


@pytest.fixture(scope="module")
def received(tmp_path_factory) -> dict:
    """What `lineage_job.py` printed."""
    home = tmp_path_factory.mktemp("lineage")
    command = [sys.executable, str(PROJECT / "tests" / "spark" / "lineage_job.py"), str(home)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": str(PROJECT)}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]) | {"log": done.stderr}


def test_a_job_reports_what_it_read_and_wrote(received):
    events = [event for event in received["events"] if wrote("t.written")(event)]
    assert events
    assert any(names(event, "inputs", "t.source") for event in events)
    assert {event["job"]["namespace"] for event in events} == {"local"}


def test_a_sink_that_is_away_or_mute_fails_nothing(received):
    assert received["rows"] == 1
    assert received["stop_seconds"] < 60


def test_the_log_has_no_warnings_that_each_statement_causes(received):
    assert " WARN " in received["log"], "it is the log"
    assert "Using an existing Spark session" not in received["log"]
