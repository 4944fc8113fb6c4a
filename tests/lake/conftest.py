"""A lake with rows below a home of its own, and copies of that home."""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.lake import tables
from spark_jobs.settings import Settings
from tests import lakes
from tests.spark.stored import messages, planned, write


@pytest.fixture(scope="package")
def original(spark, settings) -> Iterator[Settings]:
    """A lake with raw messages, and a view."""
    lakes.empty(spark, settings)
    tables.ensure(spark)
    write(spark, settings, messages(spark, 0, 20), planned(0, 20), "run")
    spark.sql("create view lake.staging.some_view as select 1 as one")
    yield settings
    lakes.empty(spark, settings)


@pytest.fixture
def copied(original: Settings, tmp_path: Path) -> Settings:
    """The same lake, copied with `cp -a`."""
    home = tmp_path / "copy"
    subprocess.run(["cp", "-a", str(original.home), str(home)], check=True)
    return Settings(home=home, spark_conf=original.spark_conf)


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file with its time and contents."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {
        str(file): (file.stat().st_mtime_ns, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files
    }


def postgres_programs() -> Path | None:
    """Where Postgres's server programs are; Debian has them in no path."""
    found = [Path(name).resolve().parent for name in [shutil.which("initdb")] if name]
    return next(iter([*found, *sorted(Path("/usr/lib/postgresql").glob("*/bin"))]), None)


@pytest.fixture(scope="package")
def postgres() -> Iterator[int]:
    """The port of a Postgres on loopback; user `postgres` has no password."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("Postgres is missing: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # its own user must reach it
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    user = {}
    if Path("/proc/self").stat().st_uid == 0:  # it refuses to run as root
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        shutil.chown(folder, "postgres", "postgres")
    subprocess.run(
        [programs / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=folder,
        **user,
    )
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
    control = [programs / "pg_ctl", "-D", folder / "data", "-w"]
    subprocess.run(
        [*control, "-l", folder / "log", "-o", options, "start"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        **user,
    )
    try:
        yield port
    finally:
        subprocess.run(
            [*control, "-m", "immediate", "stop"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            **user,
        )
        shutil.rmtree(folder)
