"""The Spark session of every job, test and benchmark, with the catalog `lake`."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

from pyspark.sql import SparkSession

from spark_jobs.lake import damaged_files, identity, tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.submit_conf import CLASS_PATH, submit_conf
from spark_jobs.process import interrupts
from spark_jobs.settings import CATALOG, PROJECT, Settings


def session_conf(settings: Settings) -> dict[str, str]:
    """The catalog, and the SQL settings that the jobs and the models require."""
    catalog = f"spark.sql.catalog.{CATALOG}"
    jdbc: dict[str, str] = {}
    if credentials := settings.catalog.credentials():
        # Set only inside the driver: every user of the machine can read a command line.
        jdbc = {f"{catalog}.jdbc.user": credentials[0], f"{catalog}.jdbc.password": credentials[1]}
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": settings.catalog.type,
        # Option names of Iceberg are case-insensitive, those of OpenLineage are not: see `_lineage`.
        f"{catalog}.{'URI' if settings.lineage.url else 'uri'}": settings.catalog_uri,
        f"{catalog}.warehouse": settings.warehouse,
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.cache-enabled": "false",
        # For SQLite, which permits one writer at a time; other drivers ignore it.
        f"{catalog}.jdbc.busy_timeout": str(settings.catalog.lock_seconds * 1000),
        **jdbc,
        **_lineage(settings),
        "spark.sql.defaultCatalog": CATALOG,
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.ansi.enabled": "false",
        **{key: value for key, value in settings.spark_conf.items() if key != CLASS_PATH},
    }


def _lineage(settings: Settings) -> dict[str, str]:
    """Send an OpenLineage event per query, with its inputs and outputs.

    OpenLineage 1.53 handles a JDBC catalog as a Hive metastore, and skips a table whose catalog has a `jdbc:` uri. If it
    finds no `uri`, it uses the metastore's: the symlink names of the tables are then in `hive://<environment>`.
    """
    if settings.lineage.url is None:
        return {}
    return {
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.namespace": settings.environment,
        "spark.hadoop.hive.metastore.uris": f"thrift://{settings.environment}",
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": settings.lineage.url,
        "spark.openlineage.transport.timeoutInMillis": str(settings.lineage.timeout_seconds * 1000),
        # A separate thread creates and sends the events, so a sink that does not respond blocks no query.
        "spark.openlineage.circuitBreaker.type": "asyncTaskQueue",
        "spark.openlineage.circuitBreaker.threadCount": "1",
        "spark.openlineage.circuitBreaker.queueSize": "1000",
        "spark.openlineage.circuitBreaker.blockingTimeInSeconds": "0",
        "spark.openlineage.circuitBreaker.shutdownTimeoutSeconds": "10",
    }


def session(name: str, settings: Settings) -> SparkSession:
    """Start (or return) the Spark session with the catalog `lake`.

    Under spark-submit the master is the one that was submitted to; otherwise `spark_master`.

    Raises:
        WrongLakeError: the catalog is not the lake of the settings; no JVM was started.
        DamagedTableError: the metadata of a table cannot be read; no JVM was started.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings.home.mkdir(parents=True, exist_ok=True)
    catalog = lake(settings)
    identity.claim(settings, catalog)
    damaged_files.raise_if_damaged(catalog, {table.name for table in tables.ALL})
    builder = SparkSession.builder.appName(name)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(settings.spark_master).config(map=dict(submit_conf(settings)))
    spark = builder.config(map={**session_conf(settings)}).getOrCreate()
    interrupts.install()
    if not str(spark.sparkContext.master).startswith("local"):
        _ship(spark)
    return spark


def _ship(spark: SparkSession) -> None:
    """Ship `spark_jobs` to the executors; third-party packages must be installed there."""
    folder = tempfile.TemporaryDirectory(prefix="spark_jobs")
    atexit.register(folder.cleanup)  # executors fetch the file while the application runs
    package = Path(folder.name) / "spark_jobs.zip"
    with ZipFile(package, "w") as archive:
        for file in sorted(PROJECT.glob("spark_jobs/**/*.py")):
            archive.write(file, file.relative_to(PROJECT))
    spark.sparkContext.addPyFile(str(package))
