"""A broker with the full scenario's traffic, of clients of three releases, taken through the DAGs.

Twice `make run` is ended in the middle; then `make demo` goes on, though one of its Spark jobs is killed. So all that
this folder says of the tables holds in spite of that.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from sandbox import pipeline, show
from sandbox.broker import Sandbox, rocketmq
from sandbox.record import Record, read_record
from sandbox.releases import OLDER
from sandbox.scenarios import TRACE_TOPICS
from sandbox.traffic import generate
from spark_jobs.settings import PROJECT, Cluster, Settings
from tests.e2e.stopping import Ended, Run

MESSAGES, OF_THE_DEMO = 400, 100


@dataclass
class World:
    """A sandbox, the settings of a pipeline over it, how to use both, and the runs that have filled its tables."""

    sandbox: Sandbox
    settings: Settings
    environment: dict[str, str]
    killed: Ended
    interrupted: Ended
    demo: Ended

    @property
    def traffic(self) -> Path:
        return self.settings.home / "sandbox" / "traffic"

    def record(self) -> Record:
        return read_record(self.traffic)

    def table(self, name: str, *columns: str) -> pa.Table:
        return show.rows(self.settings, name, *columns)


@pytest.fixture(scope="package")
def world(tmp_path_factory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("e2e")
    environment = {"TRACE_HOME": str(home), "TRACE_SETTINGS": str(PROJECT / "sandbox" / "demo.toml")}
    logs = Path(tmp_path_factory.mktemp("runs"))
    with rocketmq(home / "sandbox", stop_in_order=False) as sandbox:
        traffic = home / "sandbox" / "traffic"
        generate(sandbox.namesrv, MESSAGES, traffic, full=True)
        for release in OLDER:
            generate(sandbox.namesrv, MESSAGES // 10, traffic, release=release)
        topics = ",".join(TRACE_TOPICS)
        command = [sys.executable, "-m", "sandbox.pipeline", "--namesrv", sandbox.namesrv]
        command += ["--topic", topics, "--cluster", "demo"]
        with Run(home, command, environment, logs / "killed") as run:
            run.in_the_middle()
            run.kill()
            killed = run.end()
        command = ["make", "run", f"NAMESRV={sandbox.namesrv}", f"TOPIC={topics}", "CLUSTER=demo"]
        with Run(home, command, environment, logs / "interrupted") as run:
            run.in_the_middle()
            run.interrupt()
            interrupted = run.end()
    # It has a broker of its own, on the same folder.
    with Run(home, ["make", "demo", f"MESSAGES={OF_THE_DEMO}"], environment, logs / "demo") as run:
        os.kill(run.in_the_middle(), signal.SIGKILL)  # Airflow tries the task again
        demo = run.end()
    assert demo.code == 0, demo.output
    with rocketmq(home / "sandbox", stop_in_order=False) as sandbox:
        cluster = Cluster(name="demo", namesrv=[sandbox.namesrv], trace_topics=list(TRACE_TOPICS))
        # The demo's short limits are for the DAGs alone: other tests of this process have their own.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRACE_SETTINGS", environment["TRACE_SETTINGS"])
            settings = Settings(home=home, clusters=[cluster])
            found = World(sandbox, settings, pipeline.prepare(settings), killed, interrupted, demo)
        yield found
