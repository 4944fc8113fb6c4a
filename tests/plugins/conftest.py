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
