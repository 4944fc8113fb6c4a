"""The marts of a cluster are those of one machine, row by row; on Postgres and on a REST catalog. Runs in `make soak`."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import psycopg2
import pytest

from spark_jobs.lake.catalog import lake
from spark_jobs.settings import Catalog, Settings
from tests.cluster.rest_catalog import CREDENTIAL, rest_catalog
from tests.cluster.s3 import BUCKET, REGION
from tests.cluster.world import GUARDED, SHOP, Deployment, finished, run

pytestmark = pytest.mark.usefixtures("secrets")
# What a run adds to a row: when, and by which run or commit. Why an hour's coverage is unknown depends on whether it has ended.
OF_THE_RUN = {
    *("run_id", "ingested_at", "merged_at", "change_seq", "published_at", "built_at"),
    "unknown_reason",
}


EXTRACT = [("extract", "--cluster", name) for name in (SHOP, GUARDED)]


@pytest.fixture(scope="module")
def on_one_machine(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    home = tmp_path_factory.mktemp("embedded")
    there = deployment.settings
    settings = Settings(home=home, clusters=there.clusters, extract=there.extract, limits=there.limits)
    embedded = replace(deployment, settings=settings)
    run(embedded, *EXTRACT, ("merge",), ("marts",))
    return embedded


@pytest.fixture(scope="module")
def on_rest(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Another lake in the same bucket; two extractions at once, then as the others."""
    host, port = deployment.postgres
    connection = psycopg2.connect(host=host, port=port, user="postgres", dbname="postgres")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("create database rest")
    connection.close()
    with socket.create_server((host, 0)) as free:
        address = free.getsockname()
    properties = {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://{host}:{port}/rest",
        "jdbc.user": "postgres",
        "jdbc.password": "",
        "jdbc.schema-version": "V1",
        "warehouse": f"s3://{BUCKET}/rest",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": REGION,
        "s3.endpoint": deployment.store.endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": deployment.store.key,
        "s3.secret-access-key": deployment.store.secret,
    }
    with rest_catalog(tmp_path_factory.mktemp("rest"), address, properties) as uri:
        catalog = Catalog(kind="rest", uri=uri, credentials_env="REST", oauth2_uri=f"{uri}/v1/oauth/tokens")
        warehouse = deployment.settings.warehouse.model_copy(update={"uri": f"s3://{BUCKET}/rest"})
        settings = deployment.settings.model_copy(
            update={"catalog": catalog, "warehouse": warehouse, "home": tmp_path_factory.mktemp("home-rest")}
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REST_CREDENTIAL", CREDENTIAL)
            there = replace(deployment, settings=settings)
            one_core = settings.spark.model_copy(update={"cores_max": 1})
            jobs = [
                there.changed(spark=one_core).start("extract", "--cluster", name)
                for name in (SHOP, SHOP, GUARDED)
            ]
            for job in map(finished, jobs):
                assert job.code == 0, job.output[-6000:]
            run(there, ("merge",))
            with there.store.trusting():
                run(there, ("marts",))
            yield there


def rows(deployment: Deployment, table: str) -> Counter[str]:
    """How often each row occurs, without what the run added."""
    found = lake(deployment.settings).load_table(table).scan().to_arrow()
    kept = [name for name in sorted(found.column_names) if name not in OF_THE_RUN]
    return Counter(map(str, found.select(kept).to_pylist()))


def tables(deployment: Deployment) -> list[str]:
    catalog = lake(deployment.settings)
    return sorted(".".join(name) for space in ("events", "marts") for name in catalog.list_tables(space))


def compare(deployment: Deployment, on_one_machine: Deployment) -> None:
    assert tables(deployment) == tables(on_one_machine)
    different = {}
    for table in tables(deployment):
        here, there = rows(on_one_machine, table), rows(deployment, table)
        if here != there:
            different[table] = (list((here - there).items())[:2], list((there - here).items())[:2])
    print(f"{len(tables(deployment))} tables compared")
    assert not different
    assert sum(rows(deployment, "marts.fct_sends").values()) > 500


def test_marts_on_postgres_equal_those_of_one_machine(on_postgres, on_one_machine):
    compare(on_postgres, on_one_machine)


def test_marts_on_rest_equal_those_of_one_machine(on_rest, on_one_machine):
    compare(on_rest, on_one_machine)


def test_an_expired_token_is_one_line(on_rest, monkeypatch):
    monkeypatch.delenv("REST_CREDENTIAL")
    job = on_rest.run("merge", REST_CREDENTIAL="", REST_TOKEN="expired-4711")
    assert job.code == 1
    assert job.failure.startswith("failed: the rest catalog http://"), job.output[-3000:]
    assert "expired" in job.failure
    assert "4711" not in job.output
