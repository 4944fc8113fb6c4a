"""A catalog on Postgres: the id in it, the one that the home recorded, and the setting."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import psycopg2
import pytest

from spark_jobs.lake.catalog import lake
from spark_jobs.lake.identity import RECORD, WrongLakeError, claim, identity
from spark_jobs.settings import PROJECT, Catalog, Settings
from spark_jobs.settings_deployment import Warehouse

# A job: Spark's own view of the namespace is printed.
JOB = """
import json
from spark_jobs.lake import tables
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings
spark = session("identity", Settings())
tables.ensure(spark)
rows = spark.sql("describe namespace extended lake.ops").collect()
print("described:", json.dumps({row.info_name: row.info_value for row in rows}))
"""


@pytest.fixture
def databases(postgres, monkeypatch):
    """Make a database by name, maybe as a copy of another one; returns the catalog's address."""
    monkeypatch.setenv("LAKE_USER", "postgres")
    monkeypatch.setenv("LAKE_PASSWORD", "any")
    made = []

    def make(name: str, template: str = "template0") -> str:
        connection = psycopg2.connect(host="127.0.0.1", port=postgres, user="postgres", dbname="postgres")
        connection.autocommit = True
        with connection.cursor() as cursor:
            if name not in made:
                cursor.execute(f"drop database if exists {name} with (force)")
            if template != "template0":  # a database with connections cannot be copied
                cursor.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [template]
                )
            cursor.execute(f"create database {name} template {template}")
        connection.close()
        made.append(name)
        return f"jdbc:postgresql://127.0.0.1:{postgres}/{name}"

    return make


def at(home, uri: str, warehouse: str | None = None, **catalog: str) -> Settings:
    home.mkdir(exist_ok=True)
    return Settings(
        home=home,
        catalog=Catalog(kind="postgres", uri=uri, credentials_env="LAKE", **catalog),
        warehouse=Warehouse(uri=warehouse),
    )


def claimed(settings: Settings) -> str:
    claim(settings, lake(settings))
    found = identity(lake(settings))
    assert found
    return found.id


def test_spark_and_pyiceberg_agree_on_the_identity_that_a_job_made(databases, tmp_path, settings):
    uri = databases("lake")
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        env=os.environ
        | {
            **{"PYTHONPATH": str(PROJECT), "TRACE_HOME": str(tmp_path)},
            **{"TRACE_CATALOG__KIND": "postgres", "TRACE_CATALOG__URI": uri},
            "TRACE_CATALOG__CREDENTIALS_ENV": "LAKE",
            "TRACE_SPARK__CONF": json.dumps(settings.spark.conf),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    here = at(tmp_path, uri)
    assert lake(here).table_exists("ops.alerts")
    found = identity(lake(here))
    assert found is not None
    assert (found.catalog, found.warehouse) == (uri, here.warehouse_uri)
    described = json.loads(done.stdout.partition("described: ")[2])
    assert "trace.lake" in described["Properties"]
    assert found.id in described["Properties"]
    record = tmp_path / RECORD
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert json.loads(record.read_text())["id"] == found.id


def test_another_lake_and_an_empty_catalog_are_refused(databases, tmp_path):
    first, second = at(tmp_path / "a", databases("one")), at(tmp_path / "b", databases("two"))
    ids = claimed(first), claimed(second)
    assert ids[0] != ids[1]
    with pytest.raises(WrongLakeError, match=f"{ids[0]} is expected"):
        lake(at(first.home, second.catalog_uri, warehouse=second.warehouse_uri))
    with pytest.raises(WrongLakeError, match="contains no lake"):
        lake(at(first.home, databases("three")))
    with pytest.raises(WrongLakeError, match=r"is expected there \(setting catalog.lake_id\)"):
        lake(at(tmp_path / "fresh", first.catalog_uri, warehouse=first.warehouse_uri, lake_id=ids[1]))


def test_another_warehouse_is_refused(databases, tmp_path):
    here = at(tmp_path / "a", databases("one"))
    made = claimed(here)
    with pytest.raises(WrongLakeError, match=f"lake {made} belongs to the warehouse {here.warehouse_uri}"):
        lake(at(tmp_path / "b", here.catalog_uri))


def test_a_copied_database_is_refused_until_a_person_says_that_it_is_none(databases, tmp_path):
    here = at(tmp_path / "a", databases("one"))
    made = claimed(here)
    moved = databases("moved", template="one")
    with pytest.raises(WrongLakeError, match=f"confirm that once with TRACE_CATALOG__LAKE_ID={made}"):
        lake(at(here.home, moved))
    assert identity(lake(at(here.home, moved, lake_id=made)))
    assert identity(lake(at(here.home, moved))), "once is enough"


def test_two_first_jobs_make_one_lake(databases, tmp_path):
    """The second had looked before the first one claimed it."""
    uri = databases("one")
    first, second = (
        at(tmp_path / "a", uri),
        at(tmp_path / "b", uri, warehouse=(tmp_path / "a" / "warehouse").as_uri()),
    )
    opened = lake(second)
    assert claimed(first)
    claim(second, opened)
    assert claimed(first) == claimed(second)


def test_a_password_in_the_address_is_not_kept(databases, tmp_path):
    uri = databases("one")
    here = at(tmp_path / "a", uri + "?options=secret-7")
    claim(here, lake(at(tmp_path / "a", uri)))
    assert "secret-7" not in (here.home / RECORD).read_text()
    assert "secret-7" not in str(identity(lake(at(tmp_path / "a", uri))))
