"""The pages show the snapshots of a run and the open alerts, to users with permission."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, unquote, urljoin, urlsplit

import pyarrow as pa
import pytest

from spark_jobs.alerts.alert import advance
from spark_jobs.checks.check import Measured, judge
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.settings import Checks, Settings

RUN = "/runs/trace_ingest/manual__2026-11-21T10%3A00%3A00%2B00%3A00"
RUN_ID = "trace_ingest/manual__2026-11-21T10:00:00+00:00"


def rows(count: int) -> pa.Table:
    return pa.table({"queue_offset": list(range(count))})


@pytest.mark.parametrize("page", ["/alerts", RUN, "/runbooks/lag.md", "/runbooks/nonsense"])
def test_pages_need_a_login(anybody, page):
    assert anybody.get(page).status_code == 401


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("page", ["/alerts", "/alerts?from=mail&x=//evil.example", RUN, "/runbooks/lag.md"])
def test_a_browser_is_sent_to_the_login_and_back(anybody, page):
    answer = anybody.get(page, headers=BROWSER, follow_redirects=False)
    assert answer.status_code == 303
    login = urlsplit(answer.headers["location"])
    assert (login.scheme, login.netloc, login.path) == ("", "", "/api/v2/auth/login")
    assert parse_qs(login.query) == {"next": [unquote(page)]}


@pytest.mark.parametrize("page", ["/alerts", RUN])
def test_a_user_without_permission_is_not_redirected_to_the_login(anybody, page):
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="eve", role=None))
    anybody.cookies.set("_token", token)
    assert anybody.get(page, headers=BROWSER, follow_redirects=False).status_code == 403


@pytest.mark.parametrize(
    ("page", "status"), [("/alerts", 200), (RUN, 200), ("/runbooks/lag.md", 200), ("/runbooks/nonsense", 404)]
)
def test_pages_have_security_headers(warehouse, viewer, page, status):
    answer = viewer.get(page)
    assert answer.status_code == status
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'self'", "Airflow shows an external view in a frame"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    if status == 200:
        (style,) = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert policy["style-src"] == f"'sha256-{digest}'", "else a browser ignores it"
        assert not re.search(r"<script| style=| on\w+=|javascript:", answer.text)


def test_errors_have_security_headers(anybody):
    assert "content-security-policy" in anybody.get("/alerts").headers


def test_a_run_shows_the_snapshots_that_it_put_on_main(warehouse, viewer):
    of_run = {"trace.run_id": RUN_ID, "trace.offsets": "<script>"}
    warehouse.append("raw.trace_messages", rows(2), **{"trace.run_id": "trace_ingest/another"})
    warehouse.append("raw.trace_messages", rows(3), **of_run)
    table = warehouse.catalog.load_table("raw.trace_messages")
    published = table.current_snapshot().snapshot_id
    # As an attempt that was refused leaves it: committed to a branch, and main is elsewhere.
    table.append(rows(40), snapshot_properties=of_run, branch="extract_1")
    warehouse.append("events.trace_records", rows(7), **{"trace.run_id": "trace_marts/same_time"})

    page = viewer.get(RUN)
    assert page.status_code == 200
    assert f'<td>lake.raw.trace_messages<td data-name="snapshot">{published}' in page.text
    assert page.text.count("<td>lake.") == 1
    assert re.search(r"rows added.>3\s+<td data-name=.rows in all.>5", page.text)
    assert "<script>" not in page.text
    assert "&lt;script&gt;" in page.text


def test_a_run_that_published_nothing_says_so(warehouse, viewer):
    assert "Nothing that is on main" in viewer.get(RUN).text


def test_without_a_table_of_alerts_the_page_says_so(warehouse, viewer):
    assert "There is no table lake.ops.alerts yet" in viewer.get("/alerts").text


def test_open_alerts_are_shown_and_resolved_ones_are_not(warehouse, viewer):
    alerts = pa.table(
        {
            "identity": ["local:raw:lag:c1", "local:marts:orphans:c1"],
            "state": ["firing", "resolved"],
            "severity": ["critical", "warning"],
            "summary": ["<b>behind</b> & late", "gone"],
        }
    )
    warehouse.append("ops.alerts", alerts)
    page = viewer.get("/alerts").text
    assert "local:raw:lag:c1" in page
    assert "&lt;b&gt;behind&lt;/b&gt; &amp; late" in page
    assert "local:marts:orphans:c1" not in page


def test_an_alert_is_shown_with_its_value_limit_start_and_duration(warehouse, viewer):
    check = BY_NAME["lag"]
    ours = Settings(environment="prod", checks=Checks(lag_messages=10_000))
    found = [
        Measured("prod/RMQ_SYS_TRACE_TOPIC/broker-a/0", 48_211, "read up to 7, the broker ends at 48218"),
        Measured("east", None, "broker-b is down"),
    ]
    since = datetime.now(UTC) - timedelta(hours=3, minutes=12, seconds=5)
    alerts = advance([], [judge(check, found, ours)], ours, since)
    rows = [
        {
            name: getattr(alert, name)
            for name in ("identity", "state", "severity", "check", "summary", "description")
        }
        | {"value": alert.value, "threshold": alert.threshold, "first_failed_at": alert.first_failed_at}
        for alert in alerts
    ]
    warehouse.append("ops.alerts", pa.Table.from_pylist(rows))
    page = viewer.get("/alerts").text
    for shown in (
        "prod: 48,211 messages wait on RMQ_SYS_TRACE_TOPIC (broker-a, queue 0), limit 10,000",
        "read up to 7, the broker ends at 48218",
        'data-name="value">48,211',
        'data-name="limit">10,000',
        f'data-name="since">{since:%Y-%m-%d %H:%M} UTC',
        'data-name="for">3 h 12 min',
        "prod/east: could not be checked: lag: broker-b is down",
        'data-name="value">not measured',
    ):
        assert shown in page


@pytest.mark.parametrize("check", BY_NAME)
def test_each_runbook_opens_and_so_do_its_links(viewer, check):
    page = viewer.get(f"/runbooks/{check}.md")
    assert page.status_code == 200
    assert f"<h1>{check}: " in page.text
    for link in re.findall(r'href="([^"]+)"', page.text):
        assert viewer.get(urljoin(f"/runbooks/{check}.md", link)).status_code == 200, link


@pytest.mark.parametrize("name", ["nonsense.md", "..%2Fchecks.md", "%2e%2e%2fchecks"])
def test_only_runbooks_are_served(viewer, name):
    assert viewer.get(f"/runbooks/{name}").status_code == 404


@pytest.mark.parametrize(
    "stored", ["docs/runbooks/lag.md", "javascript:alert(1)", "https://git.example.com/lag.md"]
)
def test_the_link_of_an_open_alert_opens(warehouse, viewer, stored):
    alert = {"identity": ["local:lag"], "state": ["open"], "check": ["lag"], "runbook_url": [stored]}
    warehouse.append("ops.alerts", pa.table(alert))
    (link,) = re.findall(r'href="([^"]+)"', viewer.get("/alerts").text)
    if stored.startswith("https"):
        assert link == stored
    else:
        assert viewer.get(link).status_code == 200


def test_titles_from_the_address_are_escaped(viewer):
    page = viewer.get("/runs/<i>dag/<script>alert(1)</script>")
    assert page.status_code == 200
    assert "<script>" not in page.text
    assert "<i>" not in page.text


def test_pages_of_a_copied_lake_show_the_reason(warehouse, viewer, monkeypatch, tmp_path):
    warehouse.append("raw.trace_messages", rows(2))
    home = tmp_path / "copy"
    shutil.copytree(warehouse.settings.home, home)
    monkeypatch.setenv("TRACE_HOME", str(home))
    for page in ("/alerts", RUN):
        answer = viewer.get(page)
        assert answer.status_code == 503
        assert f"is at file:{warehouse.settings.home}" in answer.text
        assert "docs/maintenance.md" in answer.text
