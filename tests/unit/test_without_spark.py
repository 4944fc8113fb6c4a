"""Programs that work without Spark do not import it: they start in a fraction of the time and memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spark_jobs.settings import PROJECT

CLIENT = sorted(
    f"spark_jobs.rocketmq.{file.stem}"
    for file in (PROJECT / "spark_jobs" / "rocketmq").glob("[!_]*.py")
    if file.stem != "datasource"
)
MODULES = [
    "plugins.spark_job",
    "spark_jobs.broker_facts.record",
    "spark_jobs.checks.service",
    "spark_jobs.erasure.rules",
    "spark_jobs.ingest.lag",
    "spark_jobs.jobs.advance_ingest",
    "spark_jobs.jobs.advance_marts",
    "spark_jobs.jobs.alert_test",
    "spark_jobs.jobs.maintenance_window",
    "spark_jobs.jobs.rebuild_due",
    "spark_jobs.lake.catalog",
    "spark_jobs.lake.identity",
    "spark_jobs.lake.offsets",
    "spark_jobs.lake.deployment",
    "spark_jobs.lake.tables",
    "spark_jobs.mart_build.inputs",
]


# Imports one module after the other and prints those after which pyspark is loaded.
CODE = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    if 'pyspark' in sys.modules:
        print(name)
"""


@pytest.fixture(scope="module")
def with_pyspark() -> list[str]:
    """The modules, in one process, from the first that imports pyspark on."""
    command = [sys.executable, "-c", CODE, *CLIENT, *MODULES]
    return subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


@pytest.mark.parametrize("modules", [[each] for each in MODULES] + [CLIENT], ids=[*MODULES, "rocketmq"])
def test_pyspark_is_not_imported(modules: list[str], with_pyspark: list[str]):
    assert not set(modules) & set(with_pyspark), f"{with_pyspark[0]} imports pyspark"
