"""Airflow in this process, with the plugins folder of the project and without a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from deploy.airflow_environment import airflow_environment
from spark_jobs.lake.catalog import lake
from spark_jobs.settings import PROJECT, Cluster, Settings
from tests.plugins import served


@dataclass(frozen=True)
class Warehouse:
    """An Iceberg catalog that the pages read; its tables have as many columns as a test needs."""

    settings: Settings
    catalog: Catalog

    def append(self, table: str, rows: pa.Table, **properties: str) -> None:
        """Commit rows to a table, which is made first if need be."""
        self.catalog.create_namespace_if_not_exists(table.split(".")[0])
        found = self.catalog.create_table_if_not_exists(table, rows.schema)
        found.append(rows, snapshot_properties=properties)


@pytest.fixture(scope="package")
def airflow_home(tmp_path_factory) -> Iterator[Settings]:
    """Settings whose environment Airflow has, although a test of another folder may have imported it before."""
    clusters = [Cluster(name="c1", namesrv=["127.0.0.1:9876"])]
    settings = Settings(home=tmp_path_factory.mktemp("plugins"), clusters=clusters)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in airflow_environment(settings).items():
            patch.setenv(name, value)
        patch.setenv(
            "AIRFLOW__API_AUTH__JWT_SECRET",
            "not-used-outside-of-this-test-run-0000000000000000000000000000000000000000",
        )
        from airflow import plugins_manager
        from airflow import settings as airflow_settings

        patch.setattr(airflow_settings, "PLUGINS_FOLDER", str(PROJECT / "plugins"))
        for each in vars(plugins_manager).values():
            if hasattr(each, "cache_clear"):
                each.cache_clear()
        yield settings


@pytest.fixture(scope="package")
def airflow_tables(airflow_home) -> None:
    """Airflow's database, where it was when Airflow was first imported, with all its tables."""
    from airflow import settings
    from airflow.models import import_all_models
    from airflow.models.base import Base

    import_all_models()
    Path(settings.engine.url.database).parent.mkdir(parents=True, exist_ok=True)
    Base.metadata.create_all(settings.engine)


@pytest.fixture
def warehouse(airflow_tables, tmp_path, monkeypatch) -> Warehouse:
    monkeypatch.setenv("TRACE_HOME", str(tmp_path))
    (tmp_path / "warehouse").mkdir()
    settings = Settings(home=tmp_path)
    return Warehouse(settings, lake(settings))


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


@pytest.fixture(scope="package")
def home(tmp_path_factory) -> Warehouse:
    """A lake with the messages of `served.world`, and its serving file."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "warehouse").mkdir()
    settings = Settings(home=folder)
    found = Warehouse(settings, lake(settings))
    served.serve(found, served.world())
    return found


@pytest.fixture
def pages(home, viewer, monkeypatch):
    """A client that is logged in, of a server that has the messages."""
    monkeypatch.setenv("TRACE_HOME", str(home.settings.home))
    return viewer
