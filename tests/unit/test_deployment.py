"""Settings of catalog, warehouse and Spark: what is refused, and what the programs get."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError
from sqlalchemy import make_url

from spark_jobs.jobs import archive_classes
from spark_jobs.lake import deployment
from spark_jobs.serving import object_store
from spark_jobs.settings import Settings
from spark_jobs.settings_deployment import Catalog
from spark_jobs.settings_error import SettingsError

POSTGRES = {
    "TRACE_CATALOG__KIND": "postgres",
    "TRACE_CATALOG__URI": "jdbc:postgresql://db:5432/iceberg",
    "TRACE_CATALOG__CREDENTIALS_ENV": "LAKE",
}
S3 = {
    "TRACE_WAREHOUSE__URI": "s3://bucket/lake/",
    "TRACE_WAREHOUSE__ENDPOINT": "http://store:9000",
    "TRACE_WAREHOUSE__PATH_STYLE": "true",
    "TRACE_WAREHOUSE__CREDENTIALS_ENV": "STORE",
}
MASTER = {
    "TRACE_SPARK__MASTER": "spark://10.0.0.3:7077",
    "TRACE_SPARK__DRIVER_HOST": "10.0.0.1",
    "TRACE_SPARK__CORES_MAX": "4",
}
SECRETS = {
    "LAKE_USER": "trace",
    "LAKE_PASSWORD": "p@ss-4711",
    "STORE_ACCESS_KEY_ID": "key-4711",
    "STORE_SECRET_ACCESS_KEY": "secret'4711",
}
EVERYWHERE = POSTGRES | S3 | MASTER


def settings(monkeypatch: pytest.MonkeyPatch, tmp_path, given: dict[str, str]) -> Settings:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return Settings(home=tmp_path)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (MASTER, "executors of spark://10.0.0.3:7077 do not see the folder of the warehouse"),
        (MASTER | {"TRACE_WAREHOUSE__SHARED": "true"}, "a catalog in SQLite is a file of one machine"),
        (MASTER | S3, "a catalog in SQLite is a file of one machine"),
        (
            EVERYWHERE | {"TRACE_SPARK__DRIVER_HOST": "127.0.0.1"},
            "cannot connect to the driver at the loopback address 127.0.0.1",
        ),
        (
            {"TRACE_CATALOG__KIND": "rest"},
            'kind = "rest" needs catalog.uri, which starts with http:// or https://',
        ),
        ({"TRACE_CATALOG__KIND": "postgres"}, 'kind = "postgres" needs catalog.uri'),
        (POSTGRES | {"TRACE_CATALOG__KIND": "sqlite"}, 'the uri of kind = "sqlite" starts with jdbc:sqlite:'),
        (POSTGRES | {"TRACE_CATALOG__URI": "jdbc:postgresql://me:hush@db/x"}, "contains a user or password"),
        (
            POSTGRES | {"TRACE_CATALOG__URI": "jdbc:postgresql://db/x?ssl=true&User=me&passWord=hush"},
            "contains a user or password",
        ),
        (
            {"TRACE_CATALOG__KIND": "rest", "TRACE_CATALOG__URI": "https://catalog/api?token=hush"},
            "contains a user or password",
        ),
        (
            POSTGRES | S3 | {name: value for name, value in MASTER.items() if "CORES" not in name},
            "set spark.cores_max, the cores of one job",
        ),
        (POSTGRES | {"TRACE_CATALOG__WAREHOUSE": "w"}, "catalog.warehouse is for a REST catalog"),
        ({"TRACE_WAREHOUSE__URI": "gs://bucket"}, "not a folder (file:/path) and not s3://bucket/prefix"),
    ],
)
def test_settings_that_cannot_work_are_refused(monkeypatch, tmp_path, given, expected):
    with pytest.raises(SettingsError) as refused:
        settings(monkeypatch, tmp_path, given)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {},
        POSTGRES,
        EVERYWHERE,
        POSTGRES | MASTER | {"TRACE_WAREHOUSE__SHARED": "true"},
        POSTGRES
        | S3
        | MASTER
        | {"TRACE_SPARK__MASTER": "spark://127.0.0.1:1", "TRACE_SPARK__DRIVER_HOST": "127.0.0.1"},
        {"TRACE_CATALOG__KIND": "rest", "TRACE_CATALOG__URI": "https://catalog/api"},
    ],
)
def test_settings_that_work_together_are_accepted(monkeypatch, tmp_path, given):
    assert settings(monkeypatch, tmp_path, given)


def test_secrets_of_spark_are_set_inside_the_driver_and_on_no_command_line(monkeypatch, tmp_path):
    conf = {
        "spark.authenticate.secret": "s-4711",
        "spark.ssl.keyPassword": "p-4711",
        "spark.ui.enabled": "true",
    }
    found = settings(monkeypatch, tmp_path, {"TRACE_SPARK__CONF": json.dumps(conf)})
    assert "4711" not in json.dumps(deployment.submit_conf(found))
    assert deployment.submit_conf(found)["spark.ui.enabled"] == "true"
    assert conf.items() <= deployment.session_conf(found).items()


@pytest.mark.parametrize("uri", ["/data/lake/", "file:/data/lake", "file:///data/lake"])
def test_a_folder_is_written_as_hadoop_does_and_its_files_are_private(monkeypatch, tmp_path, uri):
    found = settings(monkeypatch, tmp_path, {"TRACE_WAREHOUSE__URI": uri})
    assert found.warehouse_uri == "file:/data/lake"
    assert deployment.submit_conf(found)["spark.hadoop.fs.permissions.umask-mode"] == "077"


@pytest.mark.parametrize(
    ("unset", "expected"),
    [
        ("LAKE_PASSWORD", "set LAKE_PASSWORD in the environment: catalog.credentials_env names them"),
        ("STORE_ACCESS_KEY_ID", "set STORE_ACCESS_KEY_ID in the environment: warehouse.credentials_env"),
    ],
)
def test_missing_credentials_are_named(monkeypatch, tmp_path, unset, expected):
    found = settings(monkeypatch, tmp_path, EVERYWHERE | SECRETS)
    monkeypatch.delenv(unset)
    with pytest.raises(SettingsError, match=expected):
        deployment.check(found)


def test_missing_jars_of_s3_are_named(monkeypatch, tmp_path):
    found = settings(monkeypatch, tmp_path, EVERYWHERE | SECRETS)
    monkeypatch.setattr(deployment.jars, "S3", tmp_path / "ivy.xml")
    (tmp_path / "ivy.xml").write_text("<ivy-module/>")
    with pytest.raises(SettingsError, match="run `make setup` with the same settings"):
        deployment.submit_conf(found)


def test_a_driver_whose_host_name_is_loopback_is_refused(monkeypatch, tmp_path):
    given = {name: value for name, value in EVERYWHERE.items() if name != "TRACE_SPARK__DRIVER_HOST"}
    found = settings(monkeypatch, tmp_path, given | SECRETS)
    monkeypatch.setattr(deployment, "_jars", lambda _: [])
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "localhost")
    with pytest.raises(SettingsError, match="its host name localhost is the loopback address 127.0.0.1"):
        deployment.check(found)
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "10.0.0.7")
    deployment.check(found)


def test_properties_of_postgres_and_s3(monkeypatch, tmp_path):
    found = settings(monkeypatch, tmp_path, EVERYWHERE | SECRETS)
    monkeypatch.setattr(deployment, "_jars", lambda _: ["/a.jar"])
    lake = "spark.sql.catalog.lake."
    spark = deployment.session_conf(found)
    assert {name.removeprefix(lake): value for name, value in spark.items() if name.startswith(lake)} == {
        "type": "jdbc",
        "uri": "jdbc:postgresql://db:5432/iceberg",
        "warehouse": "s3://bucket/lake",
        "cache-enabled": "false",
        "jdbc.schema-version": "V1",
        "jdbc.user": "trace",
        "jdbc.password": "p@ss-4711",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": "us-east-1",
        "s3.endpoint": "http://store:9000",
        "s3.path-style-access": "true",
        "s3.access-key-id": "key-4711",
        "s3.secret-access-key": "secret'4711",
    }
    submit = deployment.submit_conf(found)
    assert submit["spark.driver.host"] == "10.0.0.1"
    assert submit["spark.sql.iceberg.advisory-partition-size"] == str(32 * 1024 * 1024)
    assert "spark.hadoop.fs.permissions.umask-mode" not in submit
    assert not any(secret in json.dumps(submit) for secret in ("4711", "trace:"))
    assert deployment.pyiceberg_properties(found) == {
        "uri": "postgresql+psycopg2://trace:p%40ss-4711@db:5432/iceberg?connect_timeout=10",
        "warehouse": "s3://bucket/lake",
        "pool_pre_ping": "true",
        "s3.region": "us-east-1",
        "s3.endpoint": "http://store:9000",
        "s3.access-key-id": "key-4711",
        "s3.secret-access-key": "secret'4711",
        "s3.force-virtual-addressing": "false",
    }
    assert json.loads(deployment.airflow_connection(found)) == {
        "conn_type": "spark",
        "host": "spark://10.0.0.3",
        "port": 7077,
    }


def test_addresses_of_postgres(tmp_path):
    def of(uri: str):
        return make_url(
            deployment.pyiceberg_properties(
                Settings(home=tmp_path, catalog=Catalog(kind="postgres", uri=f"jdbc:postgresql://{uri}"))
            )["uri"]
        )

    one = of("db/iceberg")
    assert (one.host, one.port, one.database) == ("db", None, "iceberg")
    several = of("a,[::1]:5433/iceberg?sslmode=verify-full&connectTimeout=3&targetServerType=primary")
    dialect = several.get_dialect()()
    assert dialect.create_connect_args(several)[1] == {
        "host": "a,::1",
        "port": "5432,5433",
        "dbname": "iceberg",
        "sslmode": "verify-full",
        "connect_timeout": "3",
        "target_session_attrs": "primary",
    }


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("socketTimeout=3", "the uri has socketTimeout: Spark's and pyiceberg's drivers both need"),
        ("targetServerType=secondary", "needs targetServerType=primary"),
    ],
)
def test_parameters_that_not_both_drivers_know_are_refused(query, why):
    with pytest.raises(ValidationError, match=why):
        Catalog(kind="postgres", uri=f"jdbc:postgresql://db/iceberg?{query}")


def test_several_hosts_of_postgres_need_to_name_the_primary():
    """Both drivers take the first one that answers otherwise, also a standby."""
    with pytest.raises(ValidationError, match="needs targetServerType=primary"):
        Catalog(kind="postgres", uri="jdbc:postgresql://a,b/iceberg")


@pytest.mark.parametrize("name", ["credential", "token"])
def test_properties_of_rest(monkeypatch, tmp_path, name):
    given = {
        "TRACE_CATALOG__KIND": "rest",
        "TRACE_CATALOG__URI": "https://catalog/api",
        "TRACE_CATALOG__WAREHOUSE": "prod",
        "TRACE_CATALOG__CREDENTIALS_ENV": "REST",
        f"REST_{name.upper()}": "hush-4711",
    }
    found = settings(monkeypatch, tmp_path, given)
    expected = {"uri": "https://catalog/api", "warehouse": "prod", name: "hush-4711"}
    assert deployment.pyiceberg_properties(found) == expected
    spark = deployment.session_conf(found)
    assert {key: spark[f"spark.sql.catalog.lake.{key}"] for key in (*expected, "type")} == expected | {
        "type": "rest"
    }
    monkeypatch.delenv(f"REST_{name.upper()}")
    with pytest.raises(SettingsError, match="set REST_TOKEN"):
        deployment.check(found)


def test_variables_that_executors_need(tmp_path):
    clusters = [
        {"name": "a", "namesrv": "h:1"},
        {"name": "b", "namesrv": "h:1", "credentials_env": "B"},
    ]
    assert deployment.executor_variables(Settings(home=tmp_path, clusters=clusters)) == {
        "B_ACCESS_KEY": "clusters[1].credentials_env",
        "B_SECRET_KEY": "clusters[1].credentials_env",
    }


def test_the_shell_of_the_serving_file_gets_names_of_variables_not_secrets(monkeypatch, tmp_path):
    assert object_store.shell_statements(Settings(home=tmp_path)) == []
    found = settings(monkeypatch, tmp_path, EVERYWHERE | SECRETS)
    text = "\n".join(object_store.shell_statements(found))
    assert "4711" not in text
    assert "key_id getenv('STORE_ACCESS_KEY_ID'), secret getenv('STORE_SECRET_ACCESS_KEY')" in text
    assert "endpoint 'store:9000', use_ssl false, url_style 'path'" in text


def test_duckdb_creates_the_secret(monkeypatch, tmp_path):
    import duckdb

    with duckdb.connect() as connection:
        object_store.open_warehouse(connection, settings(monkeypatch, tmp_path, EVERYWHERE | SECRETS))
        ((scope,),) = connection.execute("select scope from duckdb_secrets()").fetchall()
        assert scope == ["s3://bucket/lake/"]


def test_duckdb_uses_the_default_chain_without_credentials(monkeypatch, tmp_path):
    import duckdb

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-chain")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    given = {name: value for name, value in EVERYWHERE.items() if name != "TRACE_WAREHOUSE__CREDENTIALS_ENV"}
    with duckdb.connect() as connection:
        object_store.open_warehouse(connection, settings(monkeypatch, tmp_path, given))
        ((text,),) = connection.execute("select secret_string from duckdb_secrets()").fetchall()
        assert "of-the-chain" in text


def test_the_class_archive_is_made_in_a_lake_of_its_own(monkeypatch, tmp_path):
    lineage = {"TRACE_LINEAGE__URL": "http://marquez:5000"}
    settings(monkeypatch, tmp_path / "deployed", EVERYWHERE | SECRETS | lineage)
    own = archive_classes.own_settings(tmp_path)
    assert own.catalog_uri == f"jdbc:sqlite:{tmp_path / 'catalog.db'}"
    assert own.warehouse_uri == f"file:{tmp_path / 'warehouse'}"
    assert own.spark.is_local
    given = deployment.submit_conf(own) | deployment.session_conf(own)
    assert not [value for value in given.values() if "4711" in value]
    assert not [name for name in given if "openlineage" in name]
