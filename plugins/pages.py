"""Pages in Airflow's web server, to read only: what a DAG run has published, the open alerts, and their runbooks.

Airflow mounts a plugin's app without asking who calls it, so each page asks Airflow's auth manager itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from plugins.published import ALERTS, Published, open_alerts, published
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.settings import PROJECT, Settings

# The columns of an alert that are shown, those of them that the table has.
ALERT_COLUMNS = ("severity", "identity", "summary", "state", "first_failed_at", "last_seen_at", "runbook_url")

app = FastAPI(title="RocketMQ trace warehouse", docs_url=None, redoc_url=None, openapi_url=None)
_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined
)


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
    """What to do about an alert of the check."""
    check = name.removesuffix(".md")  # so they link to each other
    if check not in BY_NAME:
        raise HTTPException(404, f"there is no check {check}")
    text = (PROJECT / "docs" / "runbooks" / f"{check}.md").read_text()
    body = Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))  # noqa: S704 - it is ours
    return _templates.get_template("runbook.html").render(title=check, body=body)


def _page(request: Request, settings: Settings, title: str, snapshots: list[Published] | None = None) -> str:
    alerts = open_alerts(settings)
    pages = request.scope.get("root_path", "")
    for alert in alerts or []:
        alert["runbook_url"] = _runbook(alert, pages)
    return _templates.get_template("page.html").render(
        title=title,
        snapshots=snapshots,
        alerts=alerts,
        alert_columns=ALERT_COLUMNS,
        alerts_table=f"lake.{ALERTS}",
    )


def _runbook(alert: dict[str, Any], pages: str) -> str | None:
    """The alert's own link, or the page here where that opens nothing."""
    url, check = str(alert.get("runbook_url") or ""), alert.get("check")
    if url.startswith(("http://", "https://")):
        return url
    return f"{pages}/runbooks/{check}.md" if check in BY_NAME else None
