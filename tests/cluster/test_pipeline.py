"""The pipeline beyond one machine: extract, merge and maintenance, and what it says if something is missing."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from sandbox.network import Network
from sandbox.spark_cluster import WORKERS
from spark_jobs.checks.brokers import query
from spark_jobs.lake.catalog import lake
from spark_jobs.settings import PROJECT
from tests.cluster.world import (
    BODIES,
    BROKER_SECRETS,
    CONNECTIONS,
    GUARDED,
    PASSWORD,
    SHOP,
    Deployment,
    Watch,
)

pytestmark = pytest.mark.usefixtures("secrets")
WRONG = "wrong-secret-4711"
RAW_KEY = ("cluster", "trace_topic", "broker", "queue_id", "queue_offset")


def test_concurrent_extractions_publish_each_message_once(
    deployment: Deployment, extracted: Watch, monkeypatch
):
    for name, value in BROKER_SECRETS.items():
        monkeypatch.setenv(name, value)
    table = (
        lake(deployment.settings).load_table("raw.trace_messages").scan(selected_fields=RAW_KEY).to_arrow()
    )
    found = Counter(zip(*(table[name].to_pylist() for name in RAW_KEY), strict=True))
    assert set(found.values()) == {1}
    answers = query(deployment.settings, {}, 30)
    stored = {
        name: sum(state.bounds.max_offset - state.bounds.min_offset for state in answer.seen.values())
        for name, answer in answers.items()
    }
    assert Counter(key[0] for key in found) == stored
    assert stored[SHOP] > BODIES
    assert stored[GUARDED] == BODIES
    assert {key[2] for key in found if key[0] == SHOP} == {"broker-a", "broker-b"}


def test_no_secret_is_on_a_command_line_and_connections_are_few(extracted: Watch):
    assert extracted.on_command_lines == set()
    assert 0 < extracted.connections <= CONNECTIONS - 5, "two jobs at once"


def test_both_workers_ran_tasks_of_the_merge(deployment: Deployment, merged: set[str]):
    (application,) = merged
    logs = deployment.spark.executor_logs(application)
    assert len(logs) == WORKERS
    assert all("Finished task" in log for log in logs)


def test_workers_see_neither_the_checkout_nor_temporary_files(
    network: Network, deployment: Deployment, merged: set[str]
):
    if not network.namespaces:
        assert len(set(network.workers)) == WORKERS, "then they share all but their address"
        return
    for worker in deployment.spark.workers:
        command = [
            child.pid for child in (psutil.Process(worker.pid), *psutil.Process(worker.pid).children(True))
        ]
        roots = [Path(f"/proc/{pid}/root") for pid in command if "java" in psutil.Process(pid).name()]
        assert roots
        for root in roots:
            assert not (root / PROJECT.relative_to("/") / "spark_jobs").exists()
            assert not list((root / "tmp").glob("pytest-*"))


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (
            "postgres",
            r"failed: the postgres catalog jdbc:postgresql://127.0.0.1:1/iceberg is not available: .*refused",
        ),
        ("bucket", r"failed: the warehouse s3://lake/warehouse .* is not available: .*"),
        (
            "secret",
            r"failed: the warehouse s3://lake/warehouse .* refuses the credentials \(variables of STORE\): .*",
        ),
    ],
)
def test_what_is_away_is_one_line(deployment: Deployment, merged: set[str], case: str, expected: str):
    settings = deployment.settings
    changed = {
        "postgres": {
            "catalog": settings.catalog.model_copy(update={"uri": "jdbc:postgresql://127.0.0.1:1/iceberg"})
        },
        "bucket": {"warehouse": settings.warehouse.model_copy(update={"endpoint": "http://127.0.0.1:1"})},
        "secret": {},
    }[case]
    environment = {"STORE_SECRET_ACCESS_KEY": WRONG} if case == "secret" else {}
    started = time.monotonic()
    job = deployment.changed(**changed).run("merge", **environment)
    assert time.monotonic() - started < 300
    assert job.code == 1
    assert re.match(expected, job.failure), job.output[-3000:]
    assert not any(secret in job.output for secret in (PASSWORD, deployment.store.secret, WRONG))


def test_executors_without_secrets_are_named(deployment: Deployment, merged: set[str]):
    """The driver has the secrets of one more cluster, the workers have not."""
    clusters = [
        *deployment.settings.clusters,
        deployment.settings.clusters[1].model_copy(update={"name": "other", "credentials_env": "OTHER"}),
    ]
    job = deployment.changed(clusters=clusters).run("merge", OTHER_ACCESS_KEY="a", OTHER_SECRET_KEY="b")
    assert job.code == 1
    assert re.search(
        r"failed: the executor on \S+ lacks OTHER_ACCESS_KEY and OTHER_SECRET_KEY \(clusters\[2\]",
        job.failure,
    ), job.output[-3000:]
