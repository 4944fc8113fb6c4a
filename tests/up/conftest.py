"""A broker with some messages, which no run has read yet."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from deploy.airflow_environment import prepare
from sandbox.broker import rocketmq
from sandbox.demo import CLUSTER
from sandbox.scenarios import TRACE_TOPICS
from sandbox.traffic import generate
from spark_jobs.process.home import keep_private
from spark_jobs.settings import PROJECT, Cluster, Settings
from tests.e2e.world import World
from tests.planning import QUICK

MESSAGES = 40


@pytest.fixture(scope="package")
def world(tmp_path_factory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("up")
    keep_private(home)
    with rocketmq(home / "sandbox", stop_in_order=False) as sandbox:
        generate(sandbox.namesrv, MESSAGES, home / "sandbox" / "traffic")
        cluster = Cluster(name=CLUSTER, namesrv=[sandbox.namesrv], trace_topics=list(TRACE_TOPICS))
        # The demo's short limits are for the DAGs alone: other tests of this process have their own.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRACE_SETTINGS", str(PROJECT / "sandbox" / "demo.toml"))
            settings = Settings(home=home, clusters=[cluster])
            environment = prepare(settings) | {"TRACE_SPARK__CONF": json.dumps(QUICK)}
        yield World(sandbox, settings, environment)
