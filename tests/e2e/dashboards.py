"""A Superset on the marts of a lake, its API, and changed copies of the file that it reads."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import httpx

from deploy.dashboards import service
from deploy.dashboards.service import ADMIN, Superset
from spark_jobs.serving import files
from spark_jobs.settings import PROJECT, Settings


@dataclass(frozen=True)
class Running:
    """A running Superset."""

    superset: Superset
    url: str

    @property
    def password(self) -> str:
        return self.superset.password_file.read_text()


@contextmanager
def running(settings: Settings) -> Iterator[Running]:
    """Superset with the dashboards of the project."""
    installed = subprocess.run(
        ["make", ".venv-dashboards/installed"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert installed.returncode == 0, installed.stderr
    superset = Superset(settings)
    superset.prepare()
    port = service.free_port()
    with service.running(superset, port):
        yield Running(superset, service.url_of(port))


class Api:
    """Superset's REST API as a user who has logged in."""

    def __init__(self, url: str, user: str, password: str):
        self.client = httpx.Client(base_url=url, timeout=60)
        token = self.client.post(
            "/api/v1/security/login",
            json={"username": user, "password": password, "provider": "db", "refresh": False},
        ).raise_for_status()
        self.client.headers["Authorization"] = f"Bearer {token.json()['access_token']}"
        csrf = self.client.get("/api/v1/security/csrf_token/").raise_for_status()
        self.client.headers["X-CSRFToken"] = csrf.json()["result"]
        self.client.headers["Referer"] = url

    def get(self, path: str) -> Any:
        return self.client.get(path).raise_for_status().json()

    def add_user(self, name: str, role: str, password: str) -> None:
        roles = self.get("/api/v1/security/roles/?q=(page_size:100)")
        ids = {each["name"]: each["id"] for each in roles["result"]}
        user = {"username": name, "first_name": name, "last_name": role, "email": f"{name}@localhost"}
        body = user | {"password": password, "active": True, "roles": [ids[role]]}
        self.client.post("/api/v1/security/users/", json=body).raise_for_status()

    def rows(
        self, dataset: str, metric: str, filters: list[dict[str, Any]] | None = None
    ) -> list[dict[str, Any]]:
        """A chart's query: the metric by cluster."""
        return self._query(dataset, ["cluster"], [metric], filters or [])["data"]

    def rejected(self, dataset: str, columns: Iterable[str]) -> set[str]:
        """The columns whose filters Superset ignores in a dataset."""
        count = {"expressionType": "SQL", "sqlExpression": "count(*)", "label": "rows"}
        filters = [{"col": column, "op": "IN", "val": ["x"]} for column in columns]
        return {each["column"] for each in self._query(dataset, [], [count], filters)["rejected_filters"]}

    def _query(
        self, dataset: str, columns: list[str], metrics: list[Any], filters: list[dict[str, Any]]
    ) -> dict[str, Any]:
        datasets = self.get("/api/v1/dataset/?q=(page_size:100)")["result"]
        ids = {each["table_name"]: each["id"] for each in datasets}
        query = {"columns": columns, "metrics": metrics, "filters": filters, "row_limit": 100}
        body = {
            "datasource": {"id": ids[dataset], "type": "table"},
            "queries": [query],
            "result_type": "full",
        }
        answer = self.client.post("/api/v1/chart/data", json=body).raise_for_status()
        return answer.json()["result"][0]

    def sql(self, statement: str) -> httpx.Response:
        """A statement in SQL Lab."""
        (database,) = self.get("/api/v1/database/")["result"]
        body = {"database_id": database["id"], "sql": statement, "runAsync": False, "queryLimit": 10}
        return self.client.post("/api/v1/sqllab/execute/", json=body)


def admin(of: Running) -> Api:
    return Api(of.url, ADMIN, of.password)


@contextmanager
def changed(settings: Settings, *statements: str) -> Iterator[None]:
    """Publish a copy of the files in which the statements have changed the dashboards'; then one without the changes."""
    before = files.current(settings)
    assert before is not None
    _publish_copy(settings, before, statements)
    try:
        yield
    finally:
        _publish_copy(settings, before, ())


def _publish_copy(settings: Settings, before: Path, statements: Sequence[str]) -> None:
    target = files.start(settings)
    for name in (files.FILE, files.DASHBOARDS):
        shutil.copyfile(before.with_name(name), target.with_name(name))
    with duckdb.connect(target.with_name(files.DASHBOARDS)) as connection:
        for statement in statements:
            connection.execute(statement)
    files.publish(settings, target)
