"""Drivers start from the archive of classes that `make setup` wrote."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.lake.class_archive import archive


def test_a_drivers_jvm_maps_the_archive(spark: SparkSession):
    assert archive().exists()
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    assert str(archive()) in Path(f"/proc/{pid}/maps").read_text()
