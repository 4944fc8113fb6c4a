"""Pages in Airflow's web server, to read only: what a DAG run has published, and the open alerts.

Airflow mounts a plugin's app without asking who calls it, so each page asks Airflow's auth manager itself.
"""

from __future__ import annotations

from pathlib import Path

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag, requires_access_view
from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from plugins.published import ALERTS, Published, open_alerts, published
from spark_jobs.settings import Settings

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
def run_page(dag_id: str, run_id: str) -> str:
    """The snapshots that the run has published, and the open alerts."""
    settings = Settings()
    return _page(settings, f"{dag_id} {run_id}", published(settings, f"{dag_id}/{run_id}"))


@app.get(
    "/alerts",
    response_class=HTMLResponse,
    dependencies=[Depends(requires_access_view(AccessView.WEBSITE))],
)
def alerts_page() -> str:
    """The open alerts."""
    return _page(Settings(), "RocketMQ trace warehouse")


def _page(settings: Settings, title: str, snapshots: list[Published] | None = None) -> str:
    return _templates.get_template("page.html").render(
        title=title,
        snapshots=snapshots,
        alerts=open_alerts(settings),
        alert_columns=ALERT_COLUMNS,
        alerts_table=f"lake.{ALERTS}",
    )
