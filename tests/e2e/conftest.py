"""A broker with the full scenario's traffic, of clients of several releases, taken through the DAGs by `make demo`."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.airflow_environment import prepare
from sandbox.broker import rocketmq
from sandbox.demo import CLUSTER
from sandbox.releases import OLDER
from sandbox.scenarios import TRACE_TOPICS
from sandbox.traffic import generate
from spark_jobs.process.home import keep_private
from spark_jobs.settings import PROJECT, Cluster, Settings
from tests import official_client
from tests.e2e.browser import api_server
from tests.e2e.world import World, make
from tests.planning import QUICK
from tests.soak import IS_SOAK

MESSAGES = 400
# What takes minutes and stops nothing that another test does not stop runs in `make soak` alone.
_SOAK = ["test_interrupted.py", "test_killed.py", "test_make_run.py", "test_restored.py"]
collect_ignore = [] if IS_SOAK else _SOAK


@dataclass(frozen=True)
class Server:
    """Airflow's web server over what `make demo` has left.

    Attributes:
        password: of the user in it.
        metrics_token: what a Prometheus has to send.
        log: of the server.
    """

    url: str
    password: str
    metrics_token: str
    log: Path


@dataclass
class DemoWorld(World):
    """What `make demo` has left, and what it said."""

    demo: subprocess.CompletedProcess[str]


@pytest.fixture(scope="package")
def world(tmp_path_factory) -> Iterator[DemoWorld]:
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
        yield DemoWorld(sandbox, settings, environment, demo)


@pytest.fixture(scope="package")
def server(world, tmp_path_factory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("api")
    token, log = folder / "metrics.token", folder / "api-server.log"
    token.write_text(secrets.token_hex(16))
    with api_server(world.environment | {"TRACE_METRICS__TOKEN_FILE": str(token)}, log) as (url, password):
        yield Server(url, password, token.read_text(), log)
