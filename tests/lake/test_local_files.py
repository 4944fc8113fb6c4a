"""Files of a local lake: Spark starts no `chmod` process for each of them, and nobody else can read them."""

from __future__ import annotations

import stat
from pathlib import Path

from pyspark.sql import SparkSession


def test_permissions_are_set_without_a_process(spark: SparkSession, tmp_path: Path):
    jvm = spark._jvm
    folder = jvm.org.apache.hadoop.fs.Path(f"file:{tmp_path}/folder")
    files = folder.getFileSystem(spark._jsc.hadoopConfiguration())
    assert files.getClass().getSimpleName() == "BareLocalFileSystem"
    files.mkdirs(folder)
    files.create(jvm.org.apache.hadoop.fs.Path(folder, "file")).close()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("[!.]*")}
    assert modes == {"folder": 0o700, "file": 0o600}
