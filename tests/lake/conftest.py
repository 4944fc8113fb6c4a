"""A lake with rows below a home of its own, and copies of that home."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.postgres import postgres_programs, running_postgres
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
    return Settings(home=home, spark=original.spark)


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file with its time and contents."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {
        str(file): (file.stat().st_mtime_ns, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files
    }


@pytest.fixture(scope="package")
def postgres() -> Iterator[int]:
    """The port of a Postgres on loopback; user `postgres` has no password."""
    if postgres_programs() is None:
        pytest.skip("Postgres is missing: apt-get install postgresql")
    with running_postgres() as port:
        yield port
