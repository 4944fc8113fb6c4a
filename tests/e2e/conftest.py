"""A broker with the full scenario's traffic, of clients of three releases, taken through the DAGs by `make run`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from deploy import show
from deploy.airflow_environment import prepare
from sandbox.broker import Sandbox, rocketmq
from sandbox.demo import wait_for_grace
from sandbox.releases import OLDER
from sandbox.scenarios import TRACE_TOPICS
from sandbox.traffic import generate
from spark_jobs.process.home import keep_private
from spark_jobs.settings import PROJECT, Cluster, Settings
from tests.planning import QUICK
from tests.records import Record, read_record
from tests.soak import IS_SOAK

MESSAGES = 400
# What takes minutes and stops nothing that another test does not stop runs in `make soak` alone.
collect_ignore = [] if IS_SOAK else ["test_interrupted.py"]


@dataclass
class World:
    """A sandbox, the settings of a pipeline over it, and how to use both."""

    sandbox: Sandbox
    settings: Settings
    environment: dict[str, str]
    made: subprocess.CompletedProcess[str] | None = None

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
    keep_private(home)  # as the demo does, before the broker writes below it
    with rocketmq(home / "sandbox", stop_in_order=False) as sandbox:
        cluster = Cluster(name="demo", namesrv=[sandbox.namesrv], trace_topics=list(TRACE_TOPICS))
        # The demo's short limits are for the DAGs alone: other tests of this process have their own.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRACE_SETTINGS", str(PROJECT / "sandbox" / "demo.toml"))
            settings = Settings(home=home, clusters=[cluster])
            found = World(sandbox, settings, prepare(settings))
        generate(sandbox.namesrv, MESSAGES, found.traffic, full=True)
        for release in OLDER:
            generate(sandbox.namesrv, MESSAGES // 10, found.traffic, release=release)
        wait_for_grace(settings)
        found.made = make_run(sandbox, found.environment)
        assert found.made.returncode == 0, found.made.stdout + found.made.stderr
        # The run whose marts are compared with the record is planned as in production; all later ones are quick.
        found.environment["TRACE_SPARK_CONF"] = json.dumps(QUICK)
        yield found


def make_run(sandbox: Sandbox, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Take the cluster through the pipeline as its owner would, who knows its address and nothing else."""
    return subprocess.run(
        ["make", "run", f"NAMESRV={sandbox.namesrv}", f"TOPIC={','.join(TRACE_TOPICS)}", "CLUSTER=demo"],
        cwd=PROJECT,
        env=os.environ
        | {
            name: environment[name]
            for name in ("TRACE_HOME", "TRACE_SETTINGS", "TRACE_SPARK_CONF")
            if name in environment
        },
        capture_output=True,
        text=True,
    )
