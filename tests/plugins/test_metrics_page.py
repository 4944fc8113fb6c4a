"""The page for Prometheus: who may read it, what it has, and when it reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from docs.metrics import PAGE, render
from plugins import metrics_page
from spark_jobs.lake.catalog import lake
from spark_jobs.metrics import registry
from spark_jobs.metrics.marts import METRICS as OF_MARTS
from spark_jobs.serving import files
from spark_jobs.serving.build import build
from spark_jobs.settings import Settings
from spark_jobs.settings_error import SettingsError
from tests.plugins import served
from tests.plugins.conftest import Warehouse
from tests.plugins.prometheus import needs_prometheus, of, promtool, values
from tests.plugins.served import CLUSTER, HOUR, MARKUP

TOKEN = "a-token-of-this-test-0123456789"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
DAY = HOUR.date()
# The watermark is two hours after HOUR, so the last complete hour is HOUR by the grace.
GROUPS = {"large": 900, "middle": 50, "small": 2}


def success(group: str, topic: str | None, attempts: int) -> dict:
    """A row by hour or by day of a group with so many attempts that ended, two of which failed, and one in flight."""
    counts = {"attempts": attempts + 1, "attempts_with_end": attempts, "succeeded": attempts - 2}
    counts |= {"failed": 2, "in_flight": 1}
    others = ("exception", "returned_null", "timeout", "not_returned")
    of_deliveries = ("succeeded", "in_flight", "not_returned", "retrying", "exhausted")
    zero = dict.fromkeys((*others, *(f"deliveries_{name}" for name in of_deliveries)), 0)
    return {"cluster": CLUSTER, "topic": topic, "consumer_group": group} | zero | counts


@pytest.fixture(scope="package")
def measured(tmp_path_factory) -> Warehouse:
    """A lake whose marts have numbers of a few groups, one of which has a hostile name and one an impossible one."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "warehouse").mkdir()
    settings = Settings(home=folder)
    found = Warehouse(settings, lake(settings))
    rows = [success(group, "orders", attempts) for group, attempts in GROUPS.items()]
    rows += [success(MARKUP, "a\\b\n{}é名", 40), success("x" * 256, "orders", 10_000), success("g", None, 9)]
    served.serve(
        found,
        {
            "marts.consumer_group_success": [row | {"hour": HOUR} for row in rows],
            "marts.consumer_group_success_daily": [row | {"day": DAY} for row in rows],
        },
    )
    alert = {"identity": "a", "state": "open", "check": "lag", "severity": "warning", "route": "pipeline"}
    alerts = [alert, alert | {"identity": "b"}, alert | {"identity": "c", "state": "resolved"}]
    found.append("ops.alerts", pa.Table.from_pylist(alerts))
    now = datetime.now(UTC)
    result = {"check": "lag", "evaluated_at": now, "passed": True, "value": 5.0}
    results = [
        result | {"entity": f"{CLUSTER}/T/broker-a/0"},
        result | {"entity": f"{CLUSTER}/T/broker-b/1", "value": 37.0, "passed": False},
        result | {"entity": CLUSTER, "value": 0.0},
        result | {"entity": f"{CLUSTER}/T/gone/0", "evaluated_at": now - timedelta(minutes=5)},
        result | {"check": "dbt_tests", "entity": "t", "value": None, "passed": None},
        result | {"check": "body_errors", "entity": "t", "evaluated_at": now - timedelta(days=3)},
    ]
    found.append("ops.check_results", pa.Table.from_pylist(results))
    return found


@pytest.fixture
def scraped(measured, anybody, monkeypatch):
    """A client of a server whose token is set, without a login."""
    monkeypatch.setenv("TRACE_HOME", str(measured.settings.home))
    monkeypatch.setenv("TRACE_CLUSTERS", json.dumps([{"name": CLUSTER, "namesrv": ["127.0.0.1:1"]}]))
    monkeypatch.setenv("TRACE_METRICS__TOKEN_ENV", "SCRAPE_TOKEN")
    monkeypatch.setenv("SCRAPE_TOKEN", TOKEN)
    metrics_page.scraper = metrics_page.Scraper(metrics_page.read_runs)
    return anybody


def test_the_page_of_the_documentation_is_up_to_date():
    assert PAGE.read_text() == render(), "run `make metrics`"


def test_names_end_with_their_units():
    """Prometheus' rules: a base unit at the end, `_total` of counters only, no name twice."""
    names = [metric.full_name for metric in registry.METRICS]
    assert len(names) == len(set(names))
    for metric in registry.METRICS:
        assert metric.name.endswith(metric.unit)
        assert metric.full_name.endswith("_total") == (metric.kind == "counter")
        assert (metric.labels[-1:] == ("quantile",)) == (metric.kind == "summary")


def test_without_a_token_it_refuses_and_says_what_to_set(home, viewer, monkeypatch):
    monkeypatch.setenv("TRACE_HOME", str(home.settings.home))
    for headers in ({}, BEARER, {"Authorization": "Bearer "}):
        answer = viewer.get("/metrics", headers=headers)
        assert answer.status_code == 403
        assert "Set the setting metrics.token_file" in answer.text


def test_a_token_that_cannot_be_used_is_none(scraped, monkeypatch, tmp_path):
    for token in ("", " ", "short", "é" * 20):
        monkeypatch.setenv("SCRAPE_TOKEN", token)
        answer = scraped.get("/metrics", headers={"Authorization": f"Bearer {token}".encode()})
        assert answer.status_code == 403
        assert "SCRAPE_TOKEN (metrics.token_env)" in answer.text
        assert not token.strip() or token not in answer.text
    monkeypatch.delenv("TRACE_METRICS__TOKEN_ENV")
    file = tmp_path / "token"
    monkeypatch.setenv("TRACE_METRICS__TOKEN_FILE", str(file))
    for content in (None, b"", b"\xff" * 20):
        if content is not None:
            file.write_bytes(content)
        answer = scraped.get("/metrics", headers=BEARER)
        assert answer.status_code == 403
        assert str(file) in answer.text
    monkeypatch.setenv("TRACE_METRICS__TOKEN_ENV", "SCRAPE_TOKEN")
    with pytest.raises(SettingsError, match="set token_env or token_file, not both"):
        Settings()


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        TOKEN,
        "Bearer",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer é".encode("latin-1"),
    ],
)
def test_another_token_is_refused(scraped, header):
    answer = scraped.get("/metrics", headers={} if header is None else {"Authorization": header})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert TOKEN not in answer.text
    assert "rocketmq_trace_" not in answer.text


def test_a_login_does_not_open_it_and_its_token_opens_nothing_else(scraped, request):
    for page in ("/alerts", "/messages", "/runbooks/lag.md"):
        assert scraped.get(page, headers=BEARER).status_code in (401, 403)
    viewer = request.getfixturevalue("viewer")
    assert viewer.get("/alerts").status_code == 200
    assert viewer.get("/metrics").status_code == 401
    browser = {"Accept": "text/html"}
    assert viewer.get("/metrics", headers=browser, follow_redirects=False).status_code == 401


def test_a_token_in_a_file_can_be_replaced(scraped, monkeypatch, tmp_path):
    file = tmp_path / "token"
    monkeypatch.delenv("TRACE_METRICS__TOKEN_ENV")
    monkeypatch.setenv("TRACE_METRICS__TOKEN_FILE", str(file))
    file.write_text(f"{TOKEN}\n")
    assert scraped.get("/metrics", headers=BEARER).status_code == 200
    file.write_text("another-token-0123456789")
    assert scraped.get("/metrics", headers=BEARER).status_code == 401


def test_names_are_text(scraped):
    found = values(scraped.get("/metrics", headers=BEARER).text)
    labels = {"cluster": CLUSTER, "topic": "a\\b\n{}é名", "consumer_group": MARKUP}
    for window in ("hour", "day"):
        assert found[of("consume_attempts", **labels, window=window, outcome="success")] == 38
        assert found[of("consume_success_ratio", **labels, window=window)] == 38 / 40


def test_a_mart_without_a_topic(scraped):
    found = values(scraped.get("/metrics", headers=BEARER).text)
    labels = {"cluster": CLUSTER, "topic": "", "consumer_group": "g", "window": "hour"}
    assert found[of("consume_success_ratio", **labels)] == 7 / 9


@pytest.mark.parametrize(
    ("most", "kept"),
    [
        (100, {"large", "middle", "small", MARKUP, "g"}),
        (28, {"large", "middle"}),
        (27, {"large"}),
        (13, set()),
    ],
)
def test_the_groups_with_most_traffic_are_kept_whole(scraped, monkeypatch, most, kept):
    """Seven outcomes in two windows are 14 series of a group."""
    monkeypatch.setenv("TRACE_METRICS__SERIES", str(most))
    found = values(scraped.get("/metrics", headers=BEARER).text)
    groups = [dict(labels)["consumer_group"] for name, labels in found if name == "consume_attempts"]
    assert set(groups) == kept
    assert all(groups.count(group) == 14 for group in kept)
    left_out = found[of("series_left_out", metric="rocketmq_trace_consume_attempts")]
    assert left_out == 14 * (len(GROUPS) + 3 - len(kept))
    assert found[of("series_left_out", metric="rocketmq_trace_sends")] == 0


def test_metrics_of_the_lake(scraped):
    found = values(scraped.get("/metrics", headers=BEARER).text)
    assert found[of("unread_messages", cluster=CLUSTER, trace_topic="T")] == 42
    verdicts = {
        (check, verdict): found.get(of("check_entities", check=check, verdict=verdict))
        for check in ("lag", "dbt_tests", "body_errors")
        for verdict in ("passed", "failed", "unknown")
    }
    assert list(verdicts.values()) == [2, 1, 0, 0, 0, 1, None, None, None]
    assert found[of("open_alerts", check="lag", severity="warning", route="pipeline")] == 2
    assert found[of("open_alerts", check="disk_space", severity="critical", route="pipeline")] == 0
    assert (
        found[of("complete_to_timestamp_seconds", cluster=CLUSTER, stage="marts")]
        == (HOUR + timedelta(hours=2)).timestamp()
    )
    at = found[of("check_evaluated_timestamp_seconds", check="lag")]
    assert 0 < datetime.now(UTC).timestamp() - at < 600


def test_a_cluster_that_is_not_configured_any_more_has_no_watermarks(scraped, monkeypatch):
    monkeypatch.setenv("TRACE_CLUSTERS", json.dumps([{"name": "other", "namesrv": ["127.0.0.1:1"]}]))
    found = values(scraped.get("/metrics", headers=BEARER).text)
    assert not any("complete_to" in name for name, _ in found)


def test_the_last_ended_run_of_each_dag(scraped):
    from airflow.models import DagRun
    from airflow.utils.session import create_session

    def run(dag: str, minutes: int, seconds: int, state: str) -> DagRun:
        start = HOUR + timedelta(minutes=minutes)
        found = DagRun(dag_id=dag, run_id=f"{state}_{minutes}", run_type="manual", run_after=start)
        found.state, found.start_date = state, start  # in this order: a state sets dates
        found.end_date = None if state == "running" else start + timedelta(seconds=seconds)
        return found

    runs = [
        run("trace_ingest", 0, 30, "success"),
        run("trace_ingest", 10, 45, "success"),
        run("trace_ingest", 5, 7, "failed"),
        run("trace_ingest", 20, 0, "running"),
        run("another_dag", 1, 1, "success"),
    ]
    with create_session() as session:
        session.add_all(runs)
    try:
        found = values(scraped.get("/metrics", headers=BEARER).text)
    finally:
        with create_session() as session:
            for each in runs:
                session.delete(session.merge(each))
    ended = {labels: value for (name, labels), value in found.items() if name == "run_duration_seconds"}
    assert ended == {
        of("", dag_id="trace_ingest", state="success")[1]: 45,
        of("", dag_id="trace_ingest", state="failed")[1]: 7,
    }
    assert (
        found[of("run_end_timestamp_seconds", dag_id="trace_ingest", state="failed")]
        == (HOUR + timedelta(minutes=5, seconds=7)).timestamp()
    )


def test_a_source_that_cannot_be_read_leaves_the_others(scraped, warehouse, monkeypatch, caplog):
    monkeypatch.setenv("TRACE_HOME", str(warehouse.settings.home))
    monkeypatch.setenv("TRACE_METRICS__REFRESH_SECONDS", "0")
    found = values(scraped.get("/metrics", headers=BEARER).text)
    up = {dict(labels)["source"]: value for (name, labels), value in found.items() if name == "source_up"}
    assert up == {"marts": 0, "lake": 1, "airflow": 1}
    assert "no serving file" in caplog.text
    assert not {name for name, _ in found} & {metric.name for metric in OF_MARTS}
    assert of("open_alerts", check="lag", severity="warning", route="pipeline") in found
    (warehouse.settings.home / "catalog.db").write_text("not a database")
    found = values(scraped.get("/metrics", headers=BEARER).text)
    assert found[of("source_up", source="lake")] == 0
    assert found[of("source_up", source="airflow")] == 1


def test_a_cluster_without_a_watermark_has_no_windows(scraped, warehouse, monkeypatch):
    """A new installation, whose first publication had no complete time."""
    monkeypatch.setenv("TRACE_HOME", str(warehouse.settings.home))
    served.serve(warehouse, served.orphaned("lost"), clusters=(), copied=False)
    found = values(scraped.get("/metrics", headers=BEARER).text)
    assert found[of("source_up", source="marts")] == 1
    assert not {name for name, _ in found} & {"window_start_timestamp_seconds", "orphaned_messages", "sends"}


def test_marts_are_read_once_per_serving_file_and_the_lake_at_intervals(scraped, measured, monkeypatch):
    def read_at(source: str) -> float:
        found = values(scraped.get("/metrics", headers=BEARER).text)
        return found[of("source_read_timestamp_seconds", source=source)]

    monkeypatch.setenv("TRACE_METRICS__REFRESH_SECONDS", "0")
    first, of_lake = read_at("marts"), read_at("lake")
    assert read_at("marts") == first
    assert read_at("lake") > of_lake
    build(measured.settings)
    second = read_at("marts")
    assert second > first
    monkeypatch.setenv("TRACE_METRICS__REFRESH_SECONDS", "3600")
    of_lake = read_at("lake")
    assert read_at("lake") == of_lake
    files.remove_all(measured.settings)
    try:
        found = values(scraped.get("/metrics", headers=BEARER).text)
        assert found[of("source_up", source="marts")] == 0
    finally:
        build(measured.settings)
    assert read_at("marts") > second


@needs_prometheus
@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text",
        ),
        ("*/*", "application/openmetrics-text"),
        ("text/plain", "text/plain"),
    ],
)
def test_both_formats(scraped, accept, content_type):
    answer = scraped.get("/metrics", headers=BEARER | {"Accept": accept})
    assert answer.headers["content-type"].startswith(f"{content_type}; version=")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.text.endswith("# EOF\n") == (content_type != "text/plain")
    if (
        content_type == "text/plain"
    ):  # promtool does not read OpenMetrics: Prometheus itself does, in tests/e2e
        promtool("check", "metrics", text=answer.content)
    else:
        assert values(answer.text)
