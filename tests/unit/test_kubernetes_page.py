"""The blocks of docs/kubernetes.md: settings, YAML, versions, names. No cluster is used."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pyspark
import pytest
import yaml

from spark_jobs.lake.deployment import airflow_connection, executor_variables
from spark_jobs.settings import PROJECT, Settings

PAGE = (PROJECT / "docs" / "kubernetes.md").read_text()
LOCK = (PROJECT / "requirements.lock").read_text()
PROJECT_VERSION = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


MANIFESTS = list(yaml.safe_load_all(blocks("yaml")[0]))
VALUES = yaml.safe_load(blocks("yaml")[1])


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    (text,) = blocks("toml")
    file = tmp_path / "settings.toml"
    file.write_text(text)
    monkeypatch.setenv("TRACE_SETTINGS", str(file))
    return Settings()


def test_it_says_that_it_was_not_run():
    assert PAGE.startswith("# Run it on Kubernetes\n\n**Not run.**")


def test_the_settings_are_valid_and_agree_with_the_manifests(settings):
    conf = settings.spark.conf
    (service,) = [each for each in MANIFESTS if each["kind"] == "Service"]
    assert settings.spark.driver_host == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    accounts = {each["metadata"]["name"] for each in MANIFESTS if each["kind"] == "ServiceAccount"}
    account = VALUES["scheduler"]["serviceAccount"]["name"]
    assert accounts == {account, conf["spark.kubernetes.authenticate.serviceAccountName"]}
    assert {each["metadata"]["namespace"] for each in MANIFESTS} == {conf["spark.kubernetes.namespace"]}
    image = VALUES["images"]["airflow"]
    assert conf["spark.kubernetes.container.image"] == f"{image['repository']}:{image['tag']}"


def test_executors_and_the_scheduler_get_the_secrets_of_the_clusters(settings):
    prefix = "spark.kubernetes.executor.secretKeyRef."
    given = {
        name.removeprefix(prefix): value
        for name, value in settings.spark.conf.items()
        if name.startswith(prefix)
    }
    assert set(given) == set(executor_variables(settings))
    of_scheduler = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in VALUES["scheduler"]["env"]}
    for name, value in given.items():
        assert value == f"{of_scheduler[name]['name']}:{of_scheduler[name]['key']}"
    assert not set(given) & {each["name"] for each in VALUES["dagProcessor"]["env"]}


def test_airflows_connection_has_the_master_of_the_settings(settings):
    (connection,) = [each["value"] for each in VALUES["env"] if each["name"] == "AIRFLOW_CONN_SPARK_DEFAULT"]
    assert json.loads(connection) == json.loads(airflow_connection(settings))


def test_versions_are_those_of_the_project():
    assert f"apache-airflow=={VALUES['airflowVersion']} " in LOCK
    assert VALUES["images"]["airflow"]["tag"] == PROJECT_VERSION
    assert f"FROM apache/spark:{pyspark.__version__} AS spark\n" in PAGE
    assert f"FROM rocketmq-trace-warehouse:{PROJECT_VERSION}\n" in PAGE
    assert len(set(re.findall(r"1\.22\.\d", PAGE))) == 1


def test_claims_and_config_maps_that_are_mounted_exist():
    (claim,) = [each for each in MANIFESTS if each["kind"] == "PersistentVolumeClaim"]
    assert VALUES["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    mounted = {each["name"] for each in VALUES["volumeMounts"]}
    assert mounted == {each["name"] for each in VALUES["volumes"]}
