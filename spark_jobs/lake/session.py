"""The Spark session of every job, test and benchmark, with the catalog `lake`."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark_jobs.lake import damaged_files, deployment, executors, identity, tables
from spark_jobs.lake.catalog import lake
from spark_jobs.process import interrupts
from spark_jobs.settings import PROJECT, Settings

# Loggers whose warnings ask for nothing: a build of the marts causes hundreds of them.
_WARNS_IN_VAIN = (
    "org.apache.spark.sql.classic.SparkSession",  # "Using an existing Spark session", for each statement of dbt
    "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy",  # "Can't translate true to source filter"
    "org.apache.spark.sql.execution.datasources.DataSourceManager",  # "replaced a previously registered data source"
    "org.apache.spark.util.SparkStringUtils",  # "Truncated the string representation of a plan"
)
# Classes that PySpark looks up by name for each statement or column.
_JAVA_CLASSES = (
    "org.apache.spark.sql.classic.SparkSession$",
    "org.apache.spark.sql.functions",
    "PythonSQLUtils",
    "PythonUtils",
    "functions",
)


def session(name: str, settings: Settings) -> SparkSession:
    """Start (or return) the Spark session with the catalog `lake`.

    Under spark-submit the master is the one that was submitted to, which must be the one of the settings.

    Raises:
        SettingsError: the environment lacks what the settings ask for; no JVM was started.
        WrongLakeError: the catalog is not the lake of the settings; no JVM was started.
        DamagedTableError: the metadata of a table cannot be read; no JVM was started.
        ClusterError: there is no executor, or executors lack Python, packages or secrets.
    """
    # PySpark sends the path of Python to the executors.
    os.environ["PYSPARK_PYTHON"] = settings.spark.python or os.environ.get("PYSPARK_PYTHON", sys.executable)
    if settings.spark.is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    deployment.check(settings)
    settings.home.mkdir(parents=True, exist_ok=True)
    catalog = lake(settings)
    identity.claim(settings, catalog)
    damaged_files.raise_if_damaged(catalog, {table.name for table in tables.ALL})
    _read_bucket(settings, catalog)
    is_new = SparkSession.getActiveSession() is None
    builder = SparkSession.builder.appName(name)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        conf = deployment.submit_conf(settings) | {"spark.master": settings.spark.master}
        _start_jvm(conf)
        builder = builder.config(map={**conf})
    spark = builder.config(map={**deployment.session_conf(settings)}).getOrCreate()
    interrupts.install()
    _silence(spark)
    _keep_java_classes(spark)
    if is_new and not settings.spark.is_local:
        _ship(spark)
        executors.compare_master(spark, settings)
        executors.wait(spark, settings)
        executors.probe(spark, settings)
        executors.watch(spark, settings)
    return spark


def _read_bucket(settings: Settings, catalog: Catalog) -> None:
    """Read a file in the bucket: if it is away, pyarrow fails at once, while Iceberg retries for minutes."""
    if settings.warehouse.is_s3:
        with suppress(NoSuchTableError):  # before the first job
            catalog.load_table(tables.RAW.name)


def _start_jvm(conf: dict[str, str]) -> None:
    """Start the JVM, unless it runs, with the properties that it needs from the start.

    PySpark would start it with all of a session's properties on the command line, where every user of the machine could
    read the credentials of `session_conf`; a JVM that runs already gets them over its connection.
    """
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll([*conf.items()]))


def _silence(spark: SparkSession) -> None:
    """Log only the errors of these loggers."""
    log4j: Any = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    for logger in _WARNS_IN_VAIN:
        log4j.core.config.Configurator.setLevel(logger, log4j.Level.ERROR)


def _keep_java_classes(spark: SparkSession) -> None:
    """Look up the classes once: for each look-up, Java searches all jars, in each of the packages that PySpark imports."""
    for name in _JAVA_CLASSES:
        setattr(spark._jvm, name, getattr(spark._jvm, name))


def _ship(spark: SparkSession) -> None:
    """Ship `spark_jobs` to the executors; third-party packages must be installed there."""
    folder = tempfile.TemporaryDirectory(prefix="spark_jobs")
    atexit.register(folder.cleanup)  # executors fetch the file while the application runs
    package = Path(folder.name) / "spark_jobs.zip"
    with ZipFile(package, "w") as archive:
        for file in sorted(PROJECT.glob("spark_jobs/**/*.py")):
            archive.write(file, file.relative_to(PROJECT))
    spark.sparkContext.addPyFile(str(package))
