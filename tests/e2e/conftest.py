"""A broker with the full scenario's traffic, taken through the DAGs once; every test here looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from sandbox import pipeline, show
from sandbox.broker import Sandbox, rocketmq
from sandbox.record import Record, read_record
from sandbox.scenarios import TRACE_TOPICS
from sandbox.traffic import generate
from spark_jobs.settings import PROJECT, Cluster, Settings

MESSAGES = 400


@dataclass
class World:
    """A sandbox, the settings of a pipeline over it, and how to use both."""

    sandbox: Sandbox
    settings: Settings
    environment: dict[str, str]

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
    with rocketmq(home / "sandbox", stop_in_order=False) as sandbox:
        cluster = Cluster(name="demo", namesrv=[sandbox.namesrv], trace_topics=list(TRACE_TOPICS))
        # The demo's short limits are for the DAGs alone: other tests of this process have their own.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRACE_SETTINGS", str(PROJECT / "sandbox" / "demo.toml"))
            settings = Settings(home=home, clusters=[cluster])
            found = World(sandbox, settings, pipeline.prepare(settings))
        generate(sandbox.namesrv, MESSAGES, found.traffic, full=True)
        pipeline.wait_for_grace(settings)
        pipeline.run_dags(settings, found.environment)
        yield found
