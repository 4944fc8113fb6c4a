"""The text of docker-compose.yml; no container is run."""

from __future__ import annotations

import re

import pytest
import yaml

from deploy.airflow_components import TASKS
from spark_jobs.settings import PROJECT, Settings

COMPOSE = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
NEEDED = re.compile(r"\$\{(\w+):\?[^}]+\}")


def environments() -> list[tuple[str, str, str]]:
    """Service, name and value of every variable."""
    return [
        (service, name, str(value))
        for service, of in SERVICES.items()
        for name, value in of.get("environment", {}).items()
    ]


def test_all_components_of_airflow_are_defined():
    assert set(SERVICES) == {"postgres", "init", "api-server", "scheduler", "dag-processor", "triggerer"}


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"init"}))
def test_services_have_a_health_check_and_a_restart_policy(name):
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_services_that_run_tasks_start_after_the_api_server():
    for name in ("scheduler", "dag-processor", "triggerer"):
        assert SERVICES[name]["depends_on"] == {
            "init": {"condition": "service_completed_successfully"},
            "api-server": {"condition": "service_healthy"},
        }, name
    check = SERVICES["api-server"]["healthcheck"]
    assert int(check["interval"].removesuffix("s")) <= 5, "the others wait for it"
    assert "/api/v2/monitor/health" in check["test"][-1]
    assert "timeout=" in check["test"][-1]


def test_tasks_survive_a_restart_of_the_api_server_and_end_their_callbacks():
    assert TASKS.items() <= SERVICES["scheduler"]["environment"].items()


def test_ports_are_on_loopback():
    ports = [port for of in SERVICES.values() for port in of.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_secrets_come_from_the_environment_and_are_required():
    secret = re.compile(r"PASSWORD$|SECRET|KEY$|SQL_ALCHEMY_CONN$")
    found = [each for each in environments() if secret.search(each[1])]
    assert len({name for _, name, _ in found}) == 6
    for service, name, value in found:
        without = NEEDED.sub("", value)
        assert without in ("", "postgresql+psycopg2://trace:@postgres:5432/airflow"), (service, name)


def test_the_example_environment_names_all_required_variables():
    named = re.findall(r"^(\w+)=", (PROJECT / ".env.example").read_text(), re.MULTILINE)
    assert set(named) == set(NEEDED.findall((PROJECT / "docker-compose.yml").read_text()))
    assert ".env" in (PROJECT / ".gitignore").read_text().splitlines()


def test_the_settings_are_known(monkeypatch):
    for service, name, value in environments():
        if service == "scheduler" and name.startswith(("TRACE_", "LAKE_")) and name != "TRACE_SETTINGS":
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAKE_PASSWORD", "from outside")
    monkeypatch.setenv("TRACE_SETTINGS", str(PROJECT / "deploy" / "docker" / "settings.toml.example"))
    settings = Settings()
    assert settings.catalog_uri == "jdbc:postgresql://postgres:5432/iceberg"
    assert settings.catalog.credentials() == ("trace", "from outside")


def test_mounted_files_exist():
    mounts = [v for of in SERVICES.values() for v in of.get("volumes", []) if v.startswith("./")]
    assert mounts
    assert all((PROJECT / mount.split(":")[0]).exists() for mount in mounts)


def test_files_of_the_containers_are_private():
    image = (PROJECT / "deploy" / "docker" / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["sh", "-c", "umask 077; exec \\"$@\\"", "--"]' in image
    assert "install -d -m 0700 -o trace -g trace /var/lib/trace" in image
    for service, of in SERVICES.items():
        if service != "postgres":
            permissions = {name: value for name, value in of["environment"].items() if "_PERMISSIONS" in name}
            assert set(permissions.values()) == {"0o700", "0o600"}, (
                "Airflow sets the modes of its logs itself"
            )
