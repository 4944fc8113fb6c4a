"""`make bench-dashboards`: queries and painting of all dashboards over a year of hours with 200 topics.

Superset and Chromium are real; the file is that of `benchmarks.dashboards.data`. Each round has a new publication, so no query
is answered from Superset's cache; the browser's own cache is warm, as every dashboard was opened once before. Exits with 1 if a
target is missed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import duckdb
import httpx
from playwright.sync_api import BrowserContext, Cookie, Page, Response, sync_playwright
from rich.console import Console
from rich.table import Table

from benchmarks import targets
from benchmarks.dashboards import data
from deploy.dashboards import assets, service
from deploy.dashboards.login import log_in
from deploy.dashboards.service import ADMIN, Superset
from spark_jobs.serving import files
from spark_jobs.settings import Settings, load_settings

ROUNDS = 3
VIEWERS = 10
AT_MOST = {"dashboard_query_p95_ms": 1000, "dashboard_painted_s": 5, "viewer_errors": 0}
_LAST = """() => [...document.querySelectorAll('.dashboard-component-chart-holder')].length > 0
  && document.querySelectorAll('.dashboard-component-chart-holder .loading').length === 0"""
_console = Console(width=120, highlight=False)


def main() -> int:
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("chromium is not installed (Debian: apt-get install chromium)")
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dashboards-", dir=home) as scratch:
        settings = Settings(home=Path(scratch))
        original = Path(scratch) / "original.duckdb"
        started = time.monotonic()
        rows = data.write(original)
        _console.print(
            f"{data.HOURS:,} hours x {data.TOPICS} topics: {min(rows.values()):,} rows in each of {len(rows)} marts, "
            f"{original.stat().st_size / 1e6:,.0f} MB, written in {time.monotonic() - started:.0f} s"
        )
        _publish(settings, original)
        superset = Superset(settings)
        superset.prepare()
        port = service.free_port()
        with service.running(superset, port), sync_playwright() as playwright:
            # A profile on disk, as a user has one: the browser keeps files and compiled scripts.
            context = playwright.chromium.launch_persistent_context(
                Path(scratch) / "browser",
                executable_path=browser,
                args=["--no-sandbox", "--disable-gpu"],
                base_url=service.url_of(port),
                viewport={"width": 1440, "height": 3000},
            )
            _log_in(context, superset)
            found = _measure(context, settings, original)
            cookies = context.cookies()
            context.close()
            errors = _viewers(service.url_of(port), cookies, found[2])
    return _judge(found[0], found[1], errors)


def _publish(settings: Settings, original: Path) -> None:
    target = files.start(settings)
    os.link(original, target.with_name(files.DASHBOARDS))
    with duckdb.connect(target):
        pass
    files.publish(settings, target)


def _log_in(context: BrowserContext, superset: Superset) -> None:
    page = context.new_page()
    log_in(page, ADMIN, superset.password_file.read_text())
    page.close()


def _measure(
    context: BrowserContext, settings: Settings, original: Path
) -> tuple[list[float], dict[str, list[float]], list[str]]:
    """Milliseconds of each query, seconds until each dashboard was painted, and the bodies of the queries."""
    queries: list[float] = []
    painted: dict[str, list[float]] = {}
    bodies: dict[str, None] = {}
    for number in range(ROUNDS + 1):
        _publish(settings, original)
        for name, dashboard in assets.read().dashboards.items():
            page = context.new_page()
            answers: list[Response] = []
            page.on("response", partial(_keep, answers))
            started = time.monotonic()
            page.goto(f"/superset/dashboard/{dashboard.slug}/")
            page.wait_for_function(_LAST, timeout=120_000)
            _wait_for_charts(page, answers, dashboard)
            seconds = time.monotonic() - started
            if number:  # the first round fills the browser's cache
                painted.setdefault(name, []).append(seconds)
                queries += [
                    r.request.timing["responseEnd"] - r.request.timing["requestStart"] for r in answers
                ]
            bodies |= dict.fromkeys(r.request.post_data or "" for r in answers)
            wrong = [r.status for r in answers if r.status != 200]
            assert not wrong, f"{name}: {wrong}"
            page.close()
    return queries, painted, [body for body in bodies if body]


def _keep(answers: list[Response], answer: Response) -> None:
    if "/api/v1/chart/data" in answer.url:
        answers.append(answer)


def _wait_for_charts(page: Page, answers: list[Response], dashboard: assets.Dashboard) -> None:
    charts = sum(cell.chart is not None for row in dashboard.rows for cell in row)
    until = time.monotonic() + 120
    while len(answers) < charts and time.monotonic() < until:
        page.wait_for_timeout(20)
    page.wait_for_function(_LAST, timeout=120_000)


def _viewers(url: str, cookies: list[Cookie], bodies: list[str]) -> int:
    """Send all queries of all dashboards from so many viewers at once; return the answers that are no 200."""
    jar = {cookie["name"]: cookie["value"] for cookie in cookies}
    with httpx.Client(base_url=url, cookies=jar, timeout=120) as client:
        token = client.get("/api/v1/security/csrf_token/").json()["result"]
    barrier = threading.Barrier(VIEWERS)

    def view(_: int) -> int:
        headers = {"X-CSRFToken": token, "Referer": url, "Content-Type": "application/json"}
        with httpx.Client(base_url=url, cookies=jar, headers=headers, timeout=120) as client:
            barrier.wait()
            answers = [client.post("/api/v1/chart/data", content=body) for body in bodies]
        return sum(answer.status_code != 200 for answer in answers)

    started = time.monotonic()
    with ThreadPoolExecutor(VIEWERS) as pool:
        errors = sum(pool.map(view, range(VIEWERS)))
    _console.print(
        f"{VIEWERS} viewers at once: {VIEWERS * len(bodies)} queries in {time.monotonic() - started:.0f} s, {errors} errors"
    )
    return errors


def _judge(queries: list[float], painted: dict[str, list[float]], errors: int) -> int:
    table = Table(
        "dashboard", "painted after, s (median of rounds)", title="last 7 days", title_justify="left"
    )
    medians = {name: statistics.median(seconds) for name, seconds in painted.items()}
    for name, seconds in medians.items():
        table.add_row(name, f"{seconds:.1f}")
    _console.print(table)
    p50, p95 = statistics.median(queries), statistics.quantiles(queries, n=20)[18]
    _console.print(
        f"{len(queries)} queries of charts: p50 {p50:.0f} ms, p95 {p95:.0f} ms, max {max(queries):.0f} ms"
    )
    values = {
        "dashboard_query_p95_ms": p95,
        "dashboard_painted_s": max(medians.values()),
        "viewer_errors": errors,
    }
    return targets.report(_console, values, AT_MOST)


if __name__ == "__main__":
    sys.exit(main())
