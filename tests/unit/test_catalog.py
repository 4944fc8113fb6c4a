"""A catalog in a database other than SQLite: its credentials come from the environment, and stay there."""

from __future__ import annotations

import json

import pytest
from sqlalchemy.exc import OperationalError

from spark_jobs.lake.catalog import lake
from spark_jobs.lake.deployment import session_conf, submit_conf
from spark_jobs.settings import Catalog, Settings

SECRET = "hush-hush-8"


@pytest.fixture
def settings(tmp_path, monkeypatch) -> Settings:
    monkeypatch.setenv("LAKE_USER", "trace")
    monkeypatch.setenv("LAKE_PASSWORD", SECRET)
    catalog = Catalog(kind="postgres", uri="jdbc:postgresql://127.0.0.1:1/iceberg", credentials_env="LAKE")
    return Settings(home=tmp_path, catalog=catalog)


def test_a_database_that_is_away_is_named_without_its_password(settings):
    with pytest.raises(OperationalError) as failed:
        lake(settings)
    assert "127.0.0.1" in str(failed.value)
    assert SECRET not in str(failed.value)


def test_the_password_is_set_inside_the_driver_and_on_no_command_line(settings):
    assert session_conf(settings)["spark.sql.catalog.lake.jdbc.password"] == SECRET
    assert SECRET not in json.dumps(submit_conf(settings))
    assert SECRET not in repr(settings)


def test_a_missing_password_is_named(settings, monkeypatch):
    monkeypatch.delenv("LAKE_PASSWORD")
    with pytest.raises(ValueError, match="set LAKE_PASSWORD"):
        lake(settings)
