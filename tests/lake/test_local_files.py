"""Files of a local lake: Spark starts no `chmod` process for each of them, and nobody else can read them."""

from __future__ import annotations

import stat
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.lake import jars
from spark_jobs.lake.deployment import session_conf, submit_conf
from spark_jobs.settings import Settings
from spark_jobs.settings_deployment import Spark


def test_permissions_are_set_without_a_process(spark: SparkSession, tmp_path: Path):
    jvm = spark._jvm
    folder = jvm.org.apache.hadoop.fs.Path(f"file:{tmp_path}/folder")
    files = folder.getFileSystem(spark._jsc.hadoopConfiguration())
    assert files.getClass().getSimpleName() == "BareLocalFileSystem"
    files.mkdirs(folder)
    files.create(jvm.org.apache.hadoop.fs.Path(folder, "file")).close()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("[!.]*")}
    assert modes == {"folder": 0o700, "file": 0o600}


def test_a_class_path_of_the_user_is_added_to_that_of_the_jobs(tmp_path: Path):
    name = "spark.driver.extraClassPath"
    settings = Settings(home=tmp_path, spark=Spark(conf={name: "/theirs.jar"}))
    ours = [str(jar) for jar in jars.jars(jars.SPARK)]
    assert (submit_conf(settings) | session_conf(settings))[name].split(":") == [*ours, "/theirs.jar"]
