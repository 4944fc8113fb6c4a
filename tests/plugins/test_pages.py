"""The pages say what a run has published and which alerts are open, to those who may see it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urljoin

import pyarrow as pa
import pytest

from spark_jobs.checks.registry import BY_NAME

RUN = "/runs/trace_ingest/manual__2026-11-21T10%3A00%3A00%2B00%3A00"
RUN_ID = "trace_ingest/manual__2026-11-21T10:00:00+00:00"


@pytest.fixture
def anybody(warehouse) -> Iterator:
    """A client of the app that has not logged in."""
    from airflow.api_fastapi.app import init_auth_manager
    from fastapi.testclient import TestClient

    from plugins.pages import app

    init_auth_manager()
    with TestClient(app) as client:
        yield client


@pytest.fixture
def viewer(anybody):
    """The same, logged in with the least of roles."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ann", role="VIEWER"))
    anybody.cookies.set("_token", token)
    return anybody


def rows(count: int) -> pa.Table:
    return pa.table({"queue_offset": list(range(count))})


@pytest.mark.parametrize("page", ["/alerts", RUN, "/runbooks/lag.md", "/runbooks/nonsense"])
def test_who_has_not_logged_in_sees_nothing(anybody, page):
    assert anybody.get(page).status_code == 401


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
    assert f"<td>lake.raw.trace_messages<td>{published}" in page.text
    assert page.text.count("<td>lake.") == 1
    assert "<td>3<td>5" in page.text
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


@pytest.mark.parametrize("check", BY_NAME)
def test_each_runbook_opens_and_so_do_its_links(viewer, check):
    page = viewer.get(f"/runbooks/{check}.md")
    assert page.status_code == 200
    assert f"<h1>{check}: " in page.text
    for link in re.findall(r'href="([^"]+)"', page.text):
        assert viewer.get(urljoin(f"/runbooks/{check}.md", link)).status_code == 200, link


@pytest.mark.parametrize("name", ["nonsense.md", "..%2Fchecks.md", "%2e%2e%2fchecks"])
def test_nothing_but_runbooks_is_served(viewer, name):
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
