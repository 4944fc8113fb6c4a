"""The text of docker-compose.yml against the published schema, the settings, the locks and the files it mounts.

No container is run.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import jsonschema
import pytest
import yaml

from deploy.airflow_components import TASKS
from deploy.airflow_environment import POOLS
from sandbox.releases import NEWEST
from sandbox.scenarios import TRACE_TOPICS
from spark_jobs.lake.deployment import airflow_connection
from spark_jobs.settings import PROJECT, Settings
from spark_jobs.settings_error import SettingsError

TEXT = (PROJECT / "docker-compose.yml").read_text()
COMPOSE = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SCHEMA = json.loads((PROJECT / "tests" / "unit" / "compose_spec" / "compose-spec.json").read_text())
EXAMPLE = (PROJECT / ".env.example").read_text()
VERSION = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[?-])(?P<rest>[^}]*))?\}")
PROFILES = {
    "spark": {"spark-master", "spark-worker"},
    "s3": {"s3", "s3-bucket"},
    "dashboards": {"dashboards"},
    "alerts": {"alertmanager"},
    "traffic": {"nameserver", "broker", "clients"},
}
OF_AIRFLOW = {"init", "api-server", "scheduler", "dag-processor", "triggerer", "cleanup"}
ONE_SHOT = {"init", "s3-bucket"}
ENVIRONMENT = {
    "POSTGRES_PASSWORD": "of-postgres",
    "AIRFLOW_FERNET_KEY": "of-fernet",
    "AIRFLOW_JWT_SECRET": "of-jwt",
    "AIRFLOW_API_SECRET": "of-api",
    "TRACE_SETTINGS_FILE": "./deploy/docker/settings.toml.example",
}
ON_S3 = {
    "TRACE_WAREHOUSE__URI": "s3://lake/rocketmq",
    "S3_ACCESS_KEY_ID": "of-key",
    "S3_SECRET_ACCESS_KEY": "of-secret",
}
ON_SPARK = {"TRACE_SPARK__MASTER": "spark://spark-master:7077"}


def interpolated(value: Any, given: dict[str, str]) -> Any:
    """The value as Compose reads it; a variable that is required and not given is an error."""
    if isinstance(value, dict):
        return {key: interpolated(each, given) for key, each in value.items()}
    if isinstance(value, list):
        return [interpolated(each, given) for each in value]
    if not isinstance(value, str):
        return value

    def of(match: re.Match[str]) -> str:
        if match["kind"] == "-":
            return given.get(match["name"]) or match["rest"]
        return given[match["name"]]

    return VARIABLE.sub(of, value)


def environment(service: str, given: dict[str, str]) -> dict[str, str]:
    return interpolated(SERVICES[service].get("environment", {}), ENVIRONMENT | given)


def settings_of(service: str, given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings that a process of the service reads."""
    for name, value in environment(service, given).items():
        if name.startswith(("TRACE_", "LAKE_", "STORE_")):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("TRACE_SETTINGS", str(PROJECT / ENVIRONMENT["TRACE_SETTINGS_FILE"]))
    monkeypatch.setenv("TRACE_HOME", "/var/lib/trace")
    return Settings()


def files_with_secrets(service: str) -> set[str]:
    return {each["path"] for each in SERVICES[service].get("env_file", [])}


@pytest.mark.parametrize("given", [{}, ON_S3, ON_S3 | ON_SPARK], ids=["volume", "s3", "s3 and spark"])
def test_the_file_has_the_published_schema(given):
    jsonschema.Draft7Validator(SCHEMA).validate(interpolated(COMPOSE, ENVIRONMENT | given))


def test_the_schema_finds_what_is_wrong():
    wrong = COMPOSE | {"services": SERVICES | {"init": SERVICES["init"] | {"mem_limits": "2g"}}}
    with pytest.raises(jsonschema.ValidationError, match="mem_limits"):
        jsonschema.Draft7Validator(SCHEMA).validate(wrong)


def test_services_are_in_the_profiles_that_the_page_names():
    by_profile: dict[str, set[str]] = {}
    for name, of in SERVICES.items():
        for profile in of.get("profiles", ["none"]):
            by_profile.setdefault(profile, set()).add(name)
    assert by_profile == PROFILES | {"none": OF_AIRFLOW | {"postgres"}}
    page = (PROJECT / "docs" / "containers.md").read_text()
    for profile, services in PROFILES.items():
        row = re.findall(rf"^\| `{profile}` \|.*$", page, re.MULTILINE)[0]
        assert {name for name in services if f"`{name}`" in row} == services


def test_the_cluster_of_the_page_is_that_of_the_traffic():
    page = (PROJECT / "docs" / "containers.md").read_text()
    ((text),) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (cluster,) = tomllib.loads(text)["clusters"]
    assert cluster["trace_topics"] == list(TRACE_TOPICS)
    assert cluster["namesrv"] == ["nameserver:9876"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_is_bounded_and_watched(name):
    of = SERVICES[name]
    assert re.fullmatch(r"\d+[mg]", of["mem_limit"])
    assert of["logging"] == {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}}
    if name in ONE_SHOT:
        assert of["restart"] == "no"
        assert "healthcheck" not in of
    else:
        assert of["restart"] == "unless-stopped"
        assert of["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_what_a_service_waits_for_can_be_waited_for(name):
    for other, how in SERVICES[name].get("depends_on", {}).items():
        completed = how["condition"] == "service_completed_successfully"
        assert completed == (other in ONE_SHOT), other
        # Without its profile a service does not exist.
        same = set(SERVICES[other].get("profiles", [])) <= set(SERVICES[name].get("profiles", []))
        assert how.get("required", True) == same, other


def test_services_that_run_tasks_start_after_the_api_server_the_bucket_and_the_workers():
    for name in ("scheduler", "dag-processor", "triggerer"):
        assert set(SERVICES[name]["depends_on"]) == {"init", "api-server", "s3-bucket", "spark-worker"}, name
    check = SERVICES["api-server"]["healthcheck"]
    assert int(check["interval"].removesuffix("s")) <= 5, "the others wait for it"
    assert "/api/v2/monitor/health" in check["test"][-1]
    assert "timeout=" in check["test"][-1]


def test_tasks_survive_a_restart_of_the_api_server_and_end_their_callbacks():
    assert TASKS.items() <= SERVICES["scheduler"]["environment"].items()


def test_ports_are_on_loopback_and_differ():
    ports = [port for of in SERVICES.values() for port in of.get("ports", [])]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len(set(ports)) == len(ports)


def test_ports_are_the_same_wherever_they_are_named():
    def words(name: str) -> list[str]:
        return SERVICES[name]["command"]

    master, worker, dashboards = words("spark-master"), words("spark-worker"), words("dashboards")
    address = f"spark://{master[master.index('--host') + 1]}:{master[master.index('--port') + 1]}"
    assert address == worker[-1] == ON_SPARK["TRACE_SPARK__MASTER"]
    assert f"# {'='.join(*ON_SPARK.items())}\n" in EXAMPLE
    web = master[master.index("--webui-port") + 1]
    assert SERVICES["spark-master"]["ports"] == [f"127.0.0.1:{web}:{web}"]
    assert f":{web}/" in SERVICES["spark-master"]["healthcheck"]["test"][-1]
    assert (
        f":{worker[worker.index('--webui-port') + 1]}/" in SERVICES["spark-worker"]["healthcheck"]["test"][-1]
    )
    port = dashboards[dashboards.index("--port") + 1]
    assert SERVICES["dashboards"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert SERVICES["dashboards"]["healthcheck"]["test"][-1] == port
    s3 = SERVICES["s3"]["environment"]["VGW_PORT"]
    assert environment("scheduler", {})["TRACE_WAREHOUSE__ENDPOINT"] == f"http://s3{s3}"
    health = SERVICES["s3"]["environment"]["VGW_HEALTH"]
    assert SERVICES["s3"]["healthcheck"]["test"][-1] == f"http://127.0.0.1{s3}{health}"
    namesrv = words("clients")[words("clients").index("--namesrv") + 1]
    assert namesrv == "nameserver:9876"
    assert f"-n {namesrv} " in words("broker")[-1]
    assert SERVICES["nameserver"]["healthcheck"]["test"][-1].endswith("/9876")


def test_versions_are_those_of_the_project():
    images = {name: of["image"] for name, of in SERVICES.items()}
    own = f"rocketmq-trace-warehouse:{VERSION}"
    for name in OF_AIRFLOW | PROFILES["spark"] | {"s3-bucket", "clients"}:
        assert images[name] == own, "one image: the same Python at the same path everywhere"
    assert images["dashboards"] == f"rocketmq-trace-warehouse-dashboards:{VERSION}"
    assert images["nameserver"] == images["broker"] == f"apache/rocketmq:{NEWEST.version}"
    for image in images.values():
        assert re.search(r":v?\d+(\.\d+)*$", image), "a version, not latest"


def test_the_image_has_the_python_of_the_project_and_both_targets():
    image = (PROJECT / "deploy" / "docker" / "Dockerfile").read_text()
    python = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert f"FROM python:{python.removeprefix('==').removesuffix('.*')}-slim-bookworm AS warehouse\n" in image
    assert "FROM warehouse AS dashboards\n" in image
    targets = {of["build"]["target"] for of in SERVICES.values() if "build" in of}
    assert targets == {"warehouse", "dashboards"}
    jars = "RUN make setup && TRACE_WAREHOUSE__URI=s3://any .venv/bin/python -m spark_jobs.lake.jars\n"
    assert jars in image, "with the libraries of S3"


def test_the_example_environment_names_exactly_the_variables_of_the_file():
    required = {match["name"] for match in VARIABLE.finditer(TEXT) if match["kind"] == "?"}
    optional = {match["name"] for match in VARIABLE.finditer(TEXT)} - required
    assert "${" not in VARIABLE.sub("", TEXT)
    assert set(re.findall(r"^(\w+)=", EXAMPLE, re.MULTILINE)) == required
    assert set(re.findall(r"^# (\w+)=", EXAMPLE, re.MULTILINE)) == optional
    assert {".env", "secrets/"} <= set((PROJECT / ".gitignore").read_text().splitlines())
    assert {".env", "secrets"} <= set((PROJECT / ".dockerignore").read_text().splitlines())


def test_no_secret_has_a_default():
    secret = re.compile(r"PASSWORD$|SECRET|ACCESS_KEY|FERNET_KEY$|SQL_ALCHEMY_CONN$")
    found = [
        (service, name, str(value))
        for service, of in SERVICES.items()
        for name, value in of.get("environment", {}).items()
        if secret.search(name) and not name.startswith("TRACE_")
    ]
    assert {name for _, name, _ in found} == {
        *("POSTGRES_PASSWORD", "LAKE_PASSWORD", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"),
        *("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY"),
        *("STORE_ACCESS_KEY_ID", "STORE_SECRET_ACCESS_KEY", "ROOT_ACCESS_KEY_ID", "ROOT_SECRET_ACCESS_KEY"),
    }
    for service, name, value in found:
        (variable,) = VARIABLE.finditer(value)
        assert variable["kind"] == "?" or variable["rest"] == "", (service, name)
        assert VARIABLE.sub("", value) in ("", "postgresql+psycopg2://trace:@postgres:5432/airflow")
    assert re.findall(r"^#? ?\w*(?:PASSWORD|SECRET|KEY)\w*=(.+)$", EXAMPLE, re.MULTILINE) == []


def test_secrets_reach_only_those_who_need_them():
    clusters, alerts, metrics = (f"./secrets/{name}.env" for name in ("clusters", "alerts", "metrics"))
    having = {name: files_with_secrets(name) for name in SERVICES}
    assert {name for name, files in having.items() if clusters in files} == {
        "scheduler",
        "triggerer",
        "spark-worker",
    }
    assert {name for name, files in having.items() if alerts in files} == {
        "init",
        "scheduler",
        "dag-processor",
    }
    assert {name for name, files in having.items() if metrics in files} == {"api-server"}
    given = ENVIRONMENT | ON_S3
    seen = {name: set(environment(name, given).values()) for name in SERVICES}
    for secret, services in {
        "of-fernet": OF_AIRFLOW,
        "of-jwt": OF_AIRFLOW,
        "of-api": OF_AIRFLOW,
        "of-postgres": OF_AIRFLOW | {"postgres", "s3-bucket"},
        "of-secret": OF_AIRFLOW | PROFILES["s3"],
    }.items():
        assert {name for name, values in seen.items() if secret in values} == services, secret
    assert {name for name, of in SERVICES.items() if "secrets" in of} == {"alertmanager"}
    assert set(SERVICES["alertmanager"]["secrets"]) == set(COMPOSE["secrets"])
    assert not any(
        "of-" in word for of in SERVICES.values() for word in interpolated(of.get("command", []), given)
    )


@pytest.mark.parametrize("service", ["scheduler", "api-server", "s3-bucket"])
@pytest.mark.parametrize("given", [{}, ON_S3, ON_S3 | ON_SPARK], ids=["volume", "s3", "s3 and spark"])
def test_the_settings_are_those_of_the_services(service, given, monkeypatch):
    settings = settings_of(service, given, monkeypatch)
    assert settings.catalog_uri == "jdbc:postgresql://postgres:5432/iceberg"
    assert settings.catalog.credentials() == ("trace", "of-postgres")
    assert settings.warehouse_uri == given.get("TRACE_WAREHOUSE__URI", "file:/var/lib/trace/warehouse")
    assert settings.warehouse.s3_credentials() == (
        {"access-key-id": "of-key", "secret-access-key": "of-secret"} if given else {}
    )
    assert settings.spark.master == given.get("TRACE_SPARK__MASTER", "local[2]")
    assert settings.spark.driver_host in SERVICES


def test_each_pool_of_jobs_gets_an_executor(monkeypatch):
    """Otherwise the last job to start ends after `spark.executor_seconds`."""
    command = SERVICES["spark-worker"]["command"]
    cores, memory = (command[command.index(option) + 1] for option in ("--cores", "--memory"))
    of_a_job = settings_of("scheduler", ON_S3 | ON_SPARK, monkeypatch).spark.cores_max
    assert of_a_job is not None
    assert int(cores) == len(POOLS) * of_a_job
    assert memory == f"{len(POOLS)}g", "an executor has 1 GB by default"


@pytest.mark.parametrize("given", [{}, ON_S3 | ON_SPARK], ids=["local", "spark"])
def test_airflows_connection_has_the_master_of_the_settings(given, monkeypatch):
    def master(connection: str) -> str:
        of = json.loads(connection)
        return of["host"] + (f":{of['port']}" if "port" in of else "")

    own = environment("scheduler", given)["AIRFLOW_CONN_SPARK_DEFAULT"]
    assert master(own) == master(airflow_connection(settings_of("scheduler", given, monkeypatch)))


def test_a_cluster_without_s3_and_s3_without_credentials_are_refused(monkeypatch):
    with pytest.raises(SettingsError, match="executors of spark://spark-master:7077 do not see the folder"):
        settings_of("scheduler", ON_SPARK, monkeypatch)
    given = {"TRACE_WAREHOUSE__URI": "s3://lake/rocketmq", "TRACE_SPARK__MASTER": "local[2]"}
    with pytest.raises(SettingsError, match="set STORE_ACCESS_KEY_ID and STORE_SECRET_ACCESS_KEY"):
        settings_of("scheduler", given, monkeypatch).warehouse.s3_credentials()


def test_superset_sees_the_serving_files_and_nothing_else_of_the_warehouse():
    mounts = dict(mount.split(":", 1) for mount in SERVICES["dashboards"]["volumes"])
    assert mounts == {"superset": "/var/lib/trace/superset", "serving": "/var/lib/trace/serving:ro"}
    assert "environment" not in SERVICES["dashboards"]
    for name in OF_AIRFLOW:
        assert "serving:/var/lib/trace/serving" in SERVICES[name]["volumes"], name


def test_named_volumes_and_mounted_files_exist():
    mounts = [mount for of in SERVICES.values() for mount in of.get("volumes", [])]
    sources = [interpolated(mount, ENVIRONMENT).split(":")[0] for mount in mounts]
    named = {source for source in sources if not source.startswith("./")}
    assert named == set(COMPOSE["volumes"])
    assert all((PROJECT / source).is_file() for source in sources if source.startswith("./"))


def test_scripts_and_modules_of_the_commands_exist():
    for of in SERVICES.values():
        for words in (of.get("command", []), of.get("healthcheck", {}).get("test", [])):
            if "-m" in words:
                module = words[words.index("-m") + 1]
                assert (PROJECT / f"{module.replace('.', '/')}.py").is_file(), module
            for word in words:
                if word.startswith(("deploy/", "sandbox/")):
                    assert (PROJECT / word).is_file(), word


def test_files_of_the_containers_are_private():
    image = (PROJECT / "deploy" / "docker" / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["sh", "-c", "umask 077; exec \\"$@\\"", "--"]' in image
    folders = "/var/lib/trace /var/lib/trace/serving /var/lib/trace/superset"
    assert f"install -d -m 0700 -o trace -g trace {folders}\n" in image
    for name in OF_AIRFLOW:
        permissions = {key: value for key, value in environment(name, {}).items() if "_PERMISSIONS" in key}
        assert set(permissions.values()) == {"0o700", "0o600"}, "Airflow sets the modes of its logs itself"


def test_containers_of_our_images_have_no_privileges():
    for name, of in SERVICES.items():
        if of["image"].startswith("rocketmq-trace-warehouse"):
            assert of["cap_drop"] == ["ALL"], name
            assert of["security_opt"] == ["no-new-privileges:true"], name
            assert of["init"] is True, name
