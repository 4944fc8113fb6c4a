"""Read-only pages in Airflow's web server: the snapshots of a DAG run, the open alerts, and their runbooks.

Airflow mounts a plugin's app without authentication, so each page checks the access itself; that of the metrics has a token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import duckdb
from airflow.api_fastapi.app import API_ROOT_PATH
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from markdown_it import MarkdownIt
from markupsafe import Markup

from plugins import message_pages, metrics_page
from plugins.page_layout import HEADERS, render
from plugins.published import ALERTS, Published, open_alerts, published
from spark_jobs.alerts.messages import About, MessagesPage
from spark_jobs.checks.formatting import amount, duration, printable, utc
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.lake.identity import WrongLakeError
from spark_jobs.serving.contents import ServingFileError
from spark_jobs.settings import PROJECT, Settings

_SEVERITIES = ("critical", "warning", "info")

app = FastAPI(title="RocketMQ trace warehouse", docs_url=None, redoc_url=None, openapi_url=None)
app.include_router(message_pages.router)
app.include_router(metrics_page.router)
app.add_exception_handler(ServingFileError, message_pages.unavailable)
app.add_exception_handler(duckdb.Error, message_pages.unavailable)


@app.middleware("http")
async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


@app.exception_handler(HTTPException)
async def _log_in_first(request: Request, error: HTTPException) -> Response:
    """Redirect a browser that is not logged in to Airflow's login and back; other clients get the error."""
    if error.status_code != 401 or "text/html" not in request.headers.get("accept", ""):
        return await http_exception_handler(request, error)
    # Airflow rejects a `next` on another host, so this is only the path of the page.
    back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{API_ROOT_PATH}api/v2/auth/login?{urlencode({'next': back})}", status_code=303)


@app.exception_handler(WrongLakeError)
def wrong_lake(_: Request, error: WrongLakeError) -> PlainTextResponse:
    """Show the reason instead of the page."""
    return PlainTextResponse(str(error), status_code=503)


@app.get(
    "/runs/{dag_id}/{run_id:path}",
    response_class=HTMLResponse,
    dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))],
)
def run_page(request: Request, dag_id: str, run_id: str) -> str:
    """The snapshots that the run has published, and the open alerts."""
    settings = Settings()
    return _page(request, settings, f"{dag_id} {run_id}", published(settings, f"{dag_id}/{run_id}"))


@app.get(
    "/alerts",
    response_class=HTMLResponse,
    dependencies=[Depends(requires_access_view(AccessView.WEBSITE))],
)
def alerts_page(request: Request) -> str:
    """The open alerts."""
    return _page(request, Settings(), "RocketMQ trace warehouse")


@app.get(
    "/runbooks/{name}",
    response_class=HTMLResponse,
    dependencies=[Depends(requires_access_view(AccessView.WEBSITE))],
)
def runbook_page(name: str) -> str:
    """The runbook of the check."""
    check = name.removesuffix(".md")  # runbooks link to each other with the suffix
    if check not in BY_NAME:
        raise HTTPException(404, f"there is no check {check}")
    text = (PROJECT / "docs" / "runbooks" / f"{check}.md").read_text()
    body = Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))  # noqa: S704 - it is ours
    return render("runbook.html", title=check, body=body)


def _page(request: Request, settings: Settings, title: str, snapshots: list[Published] | None = None) -> str:
    alerts, now = open_alerts(settings), datetime.now(UTC)
    pages = request.scope.get("root_path", "")
    window = timedelta(hours=settings.checks.window_hours)
    shown = (
        None
        if alerts is None
        else [_shown(alert, pages, window, now) for alert in sorted(alerts, key=_worst_first)]
    )
    return render("page.html", title=title, snapshots=snapshots, alerts=shown, alerts_table=f"lake.{ALERTS}")


def _worst_first(alert: dict[str, Any]) -> tuple[int, str]:
    severity = alert.get("severity")
    return (
        _SEVERITIES.index(severity) if severity in _SEVERITIES else len(_SEVERITIES),
        str(alert.get("first_failed_at") or ""),
    )


def _shown(alert: dict[str, Any], pages: str, window: timedelta, now: datetime) -> dict[str, str | None]:
    """The alert in words; a column that an older lake lacks is empty."""
    check, since = BY_NAME.get(str(alert.get("check"))), alert.get("first_failed_at")
    value, limit = (
        "" if alert.get(name) is None else amount(alert[name], check.unit if check else "count")
        for name in ("value", "threshold")
    )
    return {
        "severity": str(alert.get("severity") or ""),
        "title": printable(str(alert.get("summary") or "")),
        "description": printable(str(alert.get("description") or "")),
        "identity": printable(str(alert.get("identity") or "")),
        "value": value or "not measured",
        "limit": limit or "-",
        "since": utc(since) if since else "-",
        "open_for": duration(now - since) if since else "-",
        "runbook": _runbook(alert, pages),
        "messages": _messages(alert, pages, window),
    }


def _runbook(alert: dict[str, Any], pages: str) -> str | None:
    """The alert's own link, or the page here if that is not a URL."""
    url, check = str(alert.get("runbook_url") or ""), alert.get("check")
    if url.startswith(("http://", "https://")):
        return url
    return f"{pages}/runbooks/{check}.md" if check in BY_NAME else None


def _messages(alert: dict[str, Any], pages: str, window: timedelta) -> str | None:
    """The search of the messages that the alert is about."""
    seen_at, check = alert.get("last_seen_at"), BY_NAME.get(str(alert.get("check")))
    if seen_at is None or check is None:
        return None
    about = About(check.name, check.kind, alert.get("entity"), seen_at)
    return MessagesPage(pages, window).link([about])
