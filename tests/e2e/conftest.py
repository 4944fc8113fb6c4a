"""A broker with the full scenario's traffic, of clients of several releases, taken through the DAGs by `make demo`."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from deploy import show
from deploy.airflow_environment import prepare
from sandbox.broker import Sandbox, rocketmq
from sandbox.demo import CLUSTER
from sandbox.releases import OLDER
from sandbox.scenarios import TRACE_TOPICS
from sandbox.traffic import generate
from spark_jobs.process.home import keep_private
from spark_jobs.settings import PROJECT, Cluster, Settings
from tests import official_client
from tests.planning import QUICK
from tests.records import Record, read_record
from tests.soak import IS_SOAK

MESSAGES = 400
# What takes minutes and stops nothing that another test does not stop runs in `make soak` alone.
_SOAK = ["test_interrupted.py", "test_killed.py", "test_make_run.py", "test_restored.py"]
collect_ignore = [] if IS_SOAK else _SOAK


@dataclass
class World:
    """A sandbox, the settings of a pipeline over it, how to use both, and what `make demo` said of them."""

    sandbox: Sandbox
    settings: Settings
    environment: dict[str, str]
    demo: subprocess.CompletedProcess[str]

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
    traffic = home / "sandbox" / "traffic"
    with rocketmq(home / "sandbox", stop_in_order=False) as sandbox:
        generate(sandbox.namesrv, MESSAGES, traffic, full=True, python=official_client.package_or_none())
        for release in OLDER:
            generate(sandbox.namesrv, MESSAGES // 10, traffic, release=release)
    # The run whose marts are compared with the record is planned as the demo is; all later ones are quick.
    demo = make("demo", {"TRACE_HOME": str(home)}, f"MESSAGES={MESSAGES // 10}")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    with rocketmq(home / "sandbox", stop_in_order=False) as sandbox:
        cluster = Cluster(name=CLUSTER, namesrv=[sandbox.namesrv], trace_topics=list(TRACE_TOPICS))
        # The demo's short limits are for the DAGs alone: other tests of this process have their own.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRACE_SETTINGS", str(PROJECT / "sandbox" / "demo.toml"))
            settings = Settings(home=home, clusters=[cluster])
            environment = prepare(settings) | {"TRACE_SPARK__CONF": json.dumps(QUICK)}
        yield World(sandbox, settings, environment, demo)


def records_by_type(world: World) -> dict[str, Counter[str]]:
    """By trace topic, as `Record.expected` has them."""
    found: dict[str, Counter[str]] = {}
    for row in world.table("events.trace_records", "trace_topic", "record_type").to_pylist():
        found.setdefault(row["trace_topic"], Counter())[row["record_type"]] += 1
    return found


def make(target: str, environment: dict[str, str], *variables: str) -> subprocess.CompletedProcess[str]:
    """Run a target of the Makefile as a user would, who has no settings but these variables."""
    inherited = {name: value for name, value in os.environ.items() if name != "TRACE_SETTINGS"}
    return subprocess.run(
        ["make", target, *variables], cwd=PROJECT, env=inherited | environment, capture_output=True, text=True
    )


def run_variables(world: World) -> list[str]:
    """What the owner of the cluster gives `make run`."""
    return [f"NAMESRV={world.sandbox.namesrv}", f"TOPIC={','.join(TRACE_TOPICS)}", f"CLUSTER={CLUSTER}"]
