"""What the containers run, without containers: commands and scripts of docker-compose.yml, on loopback.

The user is another one, the paths are those of this checkout, and the images of others are not used.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2
import pytest
import yaml

from deploy import child_process
from deploy.airflow_environment import POOLS
from sandbox.postgres import postgres_programs, running_postgres
from spark_jobs.serving import files
from spark_jobs.settings import PROJECT, Settings
from tests.cluster.s3 import REGION, moto

SERVICES = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]
LOOPBACK = "127.0.0.1"
BIN = Path(sys.executable).parent


def environment(home: Path, **given: str) -> dict[str, str]:
    """What the image sets, and the variables that are given."""
    image = {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{PROJECT}{os.pathsep}{PROJECT / 'plugins'}",
        "PYSPARK_PYTHON": sys.executable,
        "TRACE_HOME": str(home),
        "AIRFLOW_HOME": str(home / "airflow"),
        "HOME": str(home),
        "TRACE_SETTINGS": str(PROJECT / "deploy" / "docker" / "settings.toml.example"),
    }
    return image | given


def run(command: list[str], env: dict[str, str], seconds: float = 180) -> subprocess.CompletedProcess[str]:
    words = [sys.executable if word == "python" else word for word in command]
    return subprocess.run(words, env=env, cwd=PROJECT, capture_output=True, text=True, timeout=seconds)


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as probe:
        return probe.getsockname()[1]


@pytest.fixture
def database() -> Iterator[int]:
    """The port of a Postgres as the image of the service leaves it: user `trace`, `airflow`, and what `iceberg.sql` makes."""
    if postgres_programs() is None:
        pytest.skip("Postgres is missing: apt-get install postgresql")
    of = SERVICES["postgres"]["environment"]
    with running_postgres() as port:
        connection = psycopg2.connect(host=LOOPBACK, port=port, user="postgres", dbname="postgres")
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"create role {of['POSTGRES_USER']} superuser login")
            cursor.execute(f"create database {of['POSTGRES_DB']} owner {of['POSTGRES_USER']}")
            cursor.execute((PROJECT / "deploy" / "docker" / "iceberg.sql").read_text())
        connection.close()
        yield port


def test_init_creates_airflows_database_its_pools_and_a_password_and_may_be_repeated(tmp_path, database):
    address = SERVICES["init"]["environment"]["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    address = re.sub(r":\$\{[^}]+\}@postgres:5432", f"@{LOOPBACK}:{database}", address)
    env = environment(tmp_path / "home", AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=address)
    first = run(SERVICES["init"]["command"], env)
    assert first.returncode == 0, first.stderr[-3000:]
    passwords = tmp_path / "home" / "airflow" / "passwords.json"
    assert f"log in as admin with the password in {passwords}" in first.stdout
    assert "warning: alerts have no recipient" in first.stdout
    kept = passwords.read_text()
    assert (passwords.stat().st_mode & 0o777, passwords.parent.stat().st_mode & 0o077) == (0o600, 0)
    connection = psycopg2.connect(host=LOOPBACK, port=database, user="trace", dbname="airflow")
    with connection.cursor() as cursor:
        cursor.execute("select pool, slots from slot_pool where pool like 'lake_%'")
        assert dict(cursor.fetchall()) == {name: of["slots"] for name, of in POOLS.items()}
    connection.close()
    alerts = {"TRACE_ALERTS__ALERTMANAGER": '["http://alertmanager:9093"]'}
    again = run(SERVICES["init"]["command"], env | alerts)
    assert again.returncode == 0, again.stderr[-3000:]
    assert "no recipient" not in again.stdout
    assert passwords.read_text() == kept


@contextmanager
def daemon(name: str, replaced: dict[str, str], folder: Path) -> Iterator[list[str]]:
    """A service of Spark; yields its health check."""

    def local(words: list[str]) -> list[str]:
        found = []
        for word in words:
            for old, new in replaced.items():
                word = word.replace(old, new)
            found.append(word)
        return found

    command = local(SERVICES[name]["command"])
    env = environment(folder, SPARK_LOCAL_IP=LOOPBACK, **SERVICES[name]["environment"])
    with (folder / f"{name}.log").open("w") as log:
        process = child_process.spawn(
            [str(BIN / command[0]), *command[1:]], env=env, cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield local(SERVICES[name]["healthcheck"]["test"][1:])
    finally:
        child_process.end(process, grace_seconds=5)


def wait_until_healthy(check: list[str], env: dict[str, str], log: Path) -> None:
    give_up = time.monotonic() + 60
    while (answer := run(check, env)).returncode:
        assert time.monotonic() < give_up, answer.stderr[-500:] + log.read_text()[-2000:]
        time.sleep(0.5)


def test_sparks_master_and_worker_start_and_their_health_checks_see_them():
    master, web, worker_web = free_port(), free_port(), free_port()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="spark-") as name:
        folder = Path(name)
        replaced = {
            "spark://spark-master:7077": f"spark://{LOOPBACK}:{master}",
            "http://spark-master:8090": f"http://{LOOPBACK}:{web}",
            "spark-master": LOOPBACK,
            "7077": str(master),
            "8090": str(web),
            "8091": str(worker_web),
            "{socket.gethostname()}": LOOPBACK,
            "/home/trace/work": str(folder / "work"),
        }
        env = environment(folder)
        with daemon("spark-master", replaced, folder) as check:
            assert run(check, env).returncode, "it fails while the master does not answer"
            wait_until_healthy(check, env, folder / "spark-master.log")
            with daemon("spark-worker", replaced, folder) as check:
                wait_until_healthy(check, env, folder / "spark-worker.log")
                give_up = time.monotonic() + 60
                while "Registering worker" not in (log := (folder / "spark-master.log").read_text()):
                    assert time.monotonic() < give_up, log[-2000:]
                    time.sleep(0.2)
                assert "with 6 cores, 3.0 GiB RAM" in log


def test_the_bucket_is_created_once(tmp_path):
    command = SERVICES["s3-bucket"]["command"]
    with moto(tmp_path, LOOPBACK) as store:
        env = environment(
            tmp_path / "home",
            TRACE_WAREHOUSE__URI="s3://new-lake/rocketmq",
            TRACE_WAREHOUSE__ENDPOINT=store.endpoint,
            TRACE_WAREHOUSE__REGION=REGION,
            TRACE_WAREHOUSE__PATH_STYLE="true",
            TRACE_WAREHOUSE__CREDENTIALS_ENV="STORE",
            STORE_ACCESS_KEY_ID=store.key,
            STORE_SECRET_ACCESS_KEY=store.secret,
        )
        for _ in range(2):
            done = run(command, env)
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout == f"bucket new-lake exists at {store.endpoint}\n"
        refused = run(command, env | {"STORE_SECRET_ACCESS_KEY": "another"})
        assert refused.returncode == 1
        assert "cannot be created" in refused.stderr
        assert {bucket["Name"] for bucket in store.client.list_buckets()["Buckets"]} >= {"new-lake"}
    done = run(command, env | {"STORE_SECRET_ACCESS_KEY": ""})
    assert done.returncode == 2
    assert done.stderr.startswith("failed: set STORE_SECRET_ACCESS_KEY in the environment")
    done = run(command, env | {"TRACE_WAREHOUSE__URI": "file:/var/lib/trace/warehouse"})
    assert done.returncode == 2
    assert "the profile s3 is on, but the warehouse is file:/var/lib/trace/warehouse" in done.stderr
    gone = run(command, env)
    assert gone.returncode == 1
    assert gone.stderr.startswith("failed: the bucket of s3://new-lake/rocketmq cannot be created")
    assert gone.stderr.count("\n") == 1
    assert store.secret not in gone.stderr


def test_dashboards_are_healthy_while_they_wait_for_marts_and_not_while_they_start(tmp_path):
    check = SERVICES["dashboards"]["healthcheck"]["test"][1:-1] + [str(free_port())]
    env = environment(tmp_path / "home")
    assert run(check, env).returncode == 0
    settings = Settings(home=tmp_path / "home")
    file = files.start(settings)
    file.touch()
    file.with_name(files.DASHBOARDS).touch()
    files.publish(settings, file)
    assert run(check, env).returncode == 1


def test_removing_all_serving_files_keeps_the_folder_which_is_a_mount(tmp_path):
    settings = Settings(home=tmp_path)
    for _ in range(2):
        file = files.start(settings)
        file.touch()
        files.publish(settings, file)
    (files.folder(settings) / "by-hand").touch()
    files.remove_all(settings)
    assert list(files.folder(settings).iterdir()) == []
    files.remove_all(Settings(home=tmp_path / "none"))
