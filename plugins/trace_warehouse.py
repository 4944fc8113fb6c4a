"""The plugin that Airflow loads: pages in its web server, and a link to them on every Spark task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin
from airflow.sdk import BaseOperatorLink

from plugins.idle_operator import IngestOperator, SparkUnlessIdleOperator
from plugins.submit_operator import ClientModeOperator

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "/trace-warehouse"


class PublishedLink(BaseOperatorLink):
    """Links a Spark task to the snapshots that its DAG run has published."""

    name = "Published"
    operators = [ClientModeOperator, SparkUnlessIdleOperator, IngestOperator]

    def get_link(self, operator: object, *, ti_key: TaskInstanceKey) -> str:
        """The URL of the page."""
        base = conf.get("api", "base_url", fallback="").rstrip("/")
        return f"{base}{PREFIX}/runs/{quote(ti_key.dag_id, safe='')}/{quote(ti_key.run_id, safe='')}"


class TraceWarehousePlugin(AirflowPlugin):
    """The plugin as `airflow plugins` lists it."""

    name = "trace_warehouse"
    operator_extra_links = [PublishedLink()]
    external_views = [
        {
            "name": "Trace alerts",
            "href": f"{PREFIX}/alerts",
            "url_route": "trace-alerts",
            "destination": "nav",
            "category": "browse",
        },
        {
            "name": "Messages",
            "href": f"{PREFIX}/messages",
            "url_route": "trace-messages",
            "destination": "nav",
            "category": "browse",
        },
    ]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The pages, imported when the web server asks for them: every task loads this file."""
        from plugins.pages import app

        return [{"app": app, "url_prefix": PREFIX, "name": "RocketMQ trace warehouse"}]
