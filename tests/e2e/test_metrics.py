"""Debian's Prometheus scrapes a real Airflow: what it stores is what the marts, the alerts and the runs of `make demo` say."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from deploy import child_process
from spark_jobs.metrics.registry import METRICS
from spark_jobs.settings import PROJECT
from tests.checks.loopback import until
from tests.e2e.conftest import Server
from tests.e2e.world import World
from tests.plugins.prometheus import needs_prometheus

pytestmark = needs_prometheus
EXAMPLE = PROJECT / "deploy" / "prometheus" / "prometheus.yml"
JOB = "rocketmq-trace"


@pytest.fixture(scope="module")
def prometheus(server: Server, tmp_path_factory) -> Iterator[httpx.Client]:
    """Prometheus with the configuration of the example, but for the ports, and scrapes each second."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "metrics.token").write_text(server.metrics_token)
    target = server.url.removeprefix("http://")
    refused = httpx.get(f"{server.url}/trace-warehouse/metrics", headers={"Authorization": "Bearer nonsense"})
    assert refused.status_code == 401
    with running(folder, target) as client:
        up = f'up{{job="{JOB}", instance="{target}"}}'
        until(lambda: [value for _, value in query(client, up)] == [1.0], 60, "Prometheus scrapes nothing")
        yield client
    assert server.metrics_token not in server.log.read_text()


@pytest.fixture(scope="module")
def stored(prometheus) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """By metric, the values of its series."""
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for labels, value in query(prometheus, f'{{job="{JOB}"}}'):
        name = labels.pop("__name__")
        own = frozenset(item for item in labels.items() if item[0] not in ("job", "instance"))
        found.setdefault(name.removeprefix("rocketmq_trace_"), {})[own] = value
    return found


class running:
    """A Prometheus on loopback that scrapes the target."""

    def __init__(self, folder: Path, target: str):
        config = yaml.safe_load(EXAMPLE.read_text())
        config["global"] |= {"scrape_interval": "1s", "evaluation_interval": "1s"}
        (scrape,) = config["scrape_configs"]
        scrape["static_configs"] = [{"targets": [target]}]
        del config["alerting"]
        shutil.copy(EXAMPLE.with_name("rules.yml"), folder)
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.command = [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
        self.log = folder / "prometheus.log"

    def __enter__(self) -> httpx.Client:
        with self.log.open("w") as log:
            self.process = child_process.spawn(self.command, stdout=log, stderr=subprocess.STDOUT)
        try:
            until(self.is_ready, 60, f"Prometheus is not ready: see {self.log}")
        except BaseException:
            child_process.end(self.process, 5)
            raise
        return self.client

    def is_ready(self) -> bool:
        try:
            return self.client.get("/-/ready").is_success
        except httpx.HTTPError:
            return False

    def __exit__(self, *_: object) -> None:
        child_process.end(self.process, 5)
        self.client.close()


def query(client: httpx.Client, text: str) -> list[tuple[dict[str, str], float]]:
    found = client.get("/api/v1/query", params={"query": text}).json()
    assert found["status"] == "success", found
    return [(each["metric"], float(each["value"][1])) for each in found["data"]["result"]]


def of(**labels: Any) -> frozenset[tuple[str, str]]:
    """Labels as Prometheus stores them: an empty one is none."""
    return frozenset((name, str(value)) for name, value in labels.items() if value is not None)


def test_the_types_are_those_of_the_page(prometheus):
    found = prometheus.get("/api/v1/metadata").json()["data"]
    for metric in METRICS:
        # Of a counter and an info it has the name without the suffix.
        (known,) = found.get(metric.full_name) or found[metric.family]
        assert known == {"type": metric.kind, "help": metric.meaning, "unit": metric.unit}


def test_since_midnight(world: World, stored):
    """The traffic is of minutes ago: the last complete hour has none, and the day has all of it since midnight."""
    day = datetime.fromtimestamp(
        stored["window_start_timestamp_seconds"][of(cluster="demo", window="day")], UTC
    ).date()

    def rows(mart: str) -> list[tuple[dict[str, Any], frozenset[tuple[str, str]]]]:
        found = [row for row in world.table(f"marts.{mart}_daily").to_pylist() if row["day"] == day]
        names = ("cluster", "topic", "consumer_group", "producer_group")
        return [
            (row, of(**{name: row[name] for name in names if name in row}, window="day")) for row in found
        ]

    def with_label(labels: frozenset[tuple[str, str]], name: str, value: str) -> frozenset[tuple[str, str]]:
        return labels | {(name, value)}

    groups = rows("consumer_group_success")
    assert len(groups) > 2 or day < datetime.now(UTC).date()
    attempts = {key: n for key, n in stored["consume_attempts"].items() if ("window", "day") in key}
    assert attempts == {
        with_label(key, "outcome", outcome): row["succeeded" if outcome == "success" else outcome]
        for row, key in groups
        for outcome in (
            *("success", "exception", "returned_null", "failed", "timeout", "not_returned", "in_flight"),
        )
    }
    assert {key: n for key, n in stored["consume_success_ratio"].items() if ("window", "day") in key} == {
        key: row["succeeded"] / row["attempts_with_end"] for row, key in groups if row["attempts_with_end"]
    }
    for name, mart in (
        ("consume_latency_seconds", "consume_latency"),
        ("end_to_end_latency_seconds", "end_to_end_latency"),
        ("send_latency_seconds", "send_latency"),
    ):
        assert {key: n for key, n in stored[name].items() if ("window", "day") in key} == {
            with_label(key, "quantile", quantile): row[column] / 1000
            for row, key in rows(mart)
            if row["latency_count"]
            for quantile, column in (("0.5", "p50_ms"), ("0.99", "p99_ms"))
        }
    orphans = Counter(
        of(
            cluster=row["cluster"],
            topic=row["topic"],
            consumer_group=row["expected_group"],
            window="day",
            cause=row["cause"],
            evidence=row["evidence"],
        )
        for row in world.table("marts.orphaned_messages").to_pylist()
        if row["is_orphan"] and row["published_at"].date() == day
    )
    assert {key: n for key, n in stored["orphaned_messages"].items() if ("window", "day") in key} == orphans


def test_alerts_checks_and_stages(world: World, stored):
    alerts = Counter(
        of(check=row["check"], severity=row["severity"], route=row["route"])
        for row in world.table("ops.alerts").to_pylist()
        if row["state"] == "open"
    )
    assert {key: n for key, n in stored["open_alerts"].items() if n} == alerts
    assert alerts
    evaluated = {row["check"] for row in world.table("ops.check_results", "check").to_pylist()}
    assert {dict(key)["check"] for key in stored["check_evaluated_timestamp_seconds"]} == evaluated
    now = datetime.now(UTC).timestamp()
    stages = stored["complete_to_timestamp_seconds"]
    assert stages.keys() == {of(cluster="demo", stage=stage) for stage in ("raw", "events", "marts")}
    raw, events, marts = (stages[of(cluster="demo", stage=stage)] for stage in ("raw", "events", "marts"))
    assert now - 7200 < marts <= events <= raw < now
    read = {
        (dict(key)["trace_topic"], dict(key)["stage"]): n for key, n in stored["read_messages_total"].items()
    }
    rows = Counter(world.table("raw.trace_messages", "trace_topic")["trace_topic"].to_pylist())
    assert read == {(topic, stage): count for topic, count in rows.items() for stage in ("raw", "events")}


def test_runs(world: World, stored):
    with closing(sqlite3.connect(world.settings.home / "airflow" / "airflow.db")) as database:
        rows = database.execute(
            "select dag_id, start_date, max(end_date) from dag_run where state = 'success' group by dag_id"
        ).fetchall()
    assert {dag for dag, _, _ in rows} >= {"trace_ingest", "trace_marts"}
    took = {
        of(dag_id=dag, state="success"): (
            datetime.fromisoformat(end) - datetime.fromisoformat(start)
        ).total_seconds()
        for dag, start, end in rows
    }
    assert {
        key: n for key, n in stored["run_duration_seconds"].items() if ("state", "success") in key
    } == took


def test_rules_are_evaluated(prometheus):
    """Each has an answer of this Prometheus; what the traffic does on purpose fires."""

    def states() -> dict[str, str]:
        (group,) = prometheus.get("/api/v1/rules").json()["data"]["groups"]
        assert [rule["lastError"] for rule in group["rules"] if rule.get("lastError")] == []
        return {rule["name"]: rule["state"] for rule in group["rules"] if rule["health"] == "ok"}

    until(lambda: len(states()) == 11, 30, "not all rules were evaluated")
    assert states()["TraceMetricsDown"] == states()["TraceSourceDown"] == "inactive"


def test_a_scrape_is_cheap(prometheus, stored):
    """All but the first one return kept text; in between, a scrape reads the small lake again."""

    def took(function: str) -> float:
        ((_, seconds),) = query(
            prometheus, f'{function}_over_time(scrape_duration_seconds{{job="{JOB}"}}[1m])'
        )
        return seconds

    until(lambda: took("count") >= 5, 60, "Prometheus scrapes no more")
    readings = {dict(key)["source"]: n for key, n in stored["source_read_duration_seconds"].items()}
    shown = ", ".join(f"{function} {1000 * took(function):.0f} ms" for function in ("min", "max"))
    print(f"a scrape of {sum(map(len, stored.values()))} series: {shown}; readings, s: {readings}")
    assert took("min") < 0.5 * sum(readings.values())
