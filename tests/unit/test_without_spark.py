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
    "spark_jobs.checks.service",
    "spark_jobs.erasure.rules",
    "spark_jobs.ingest.lag",
    "spark_jobs.lake.catalog",
    "spark_jobs.lake.identity",
    "spark_jobs.lake.offsets",
    "spark_jobs.lake.tables",
    "spark_jobs.mart_build.inputs",
]


@pytest.mark.parametrize("modules", [[each] for each in MODULES] + [CLIENT], ids=[*MODULES, "rocketmq"])
def test_pyspark_is_not_imported(modules: list[str]):
    code = f"import sys, {', '.join(modules)}; assert 'pyspark' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
