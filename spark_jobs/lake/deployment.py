"""What the settings of catalog, warehouse and Spark mean to each program: Spark's driver and executors, pyiceberg, Airflow.

Airflow imports this each time it parses a DAG file, and in each task: it imports neither pyspark nor pyiceberg.
"""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from spark_jobs.lake import class_archive, jars
from spark_jobs.process.home import UMASK
from spark_jobs.settings import CATALOG, Settings
from spark_jobs.settings_deployment import POSTGRES_PARAMETERS, is_loopback
from spark_jobs.settings_error import SettingsError

# Generated methods are large: Iceberg's may exceed the size above which the JVM does not compile a method, and the
# decoder's the size from which it stops inlining. The parallel garbage collector does less work for each written object
# than the JVM's default, which is designed for short pauses; for batch jobs throughput matters.
_JAVA_OPTIONS = "-XX:-DontCompileHugeMethods -XX:-ClipInlining -XX:+UseParallelGC"
# After an OutOfMemoryError a driver may wait forever for a dead thread: it exits instead, and the next run repeats the work.
_DRIVER_OPTIONS = f"{_JAVA_OPTIONS} -XX:+ExitOnOutOfMemoryError"
# As Spark redacts them in its own logs (`spark.redaction.regex`).
_SECRET = re.compile("secret|password|token|access[.]?key|credential", re.IGNORECASE)
# Linux's setting for pages of 2 MB: `always [madvise] never`, with the current choice in brackets.
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# Hadoop's own class for local files starts a `chmod` process for each file and directory that it creates, which takes
# longer than writing a small file. This one sets permissions by a system call.
_LOCAL_FILES = {"spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"}
CLASS_PATH = "spark.driver.extraClassPath"
_HADOOP_UMASK = "spark.hadoop.fs.permissions.umask-mode"
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Iceberg writes a partition with one task until it exceeds this. At its 128 MB, one executor would write a whole day.
_WRITE_TASK_BYTES = 32 * 1024 * 1024
NO_EXECUTOR = "gave this job no executor"
_SPARK_CATALOG = f"spark.sql.catalog.{CATALOG}"


class ClusterError(RuntimeError):
    """The Spark cluster cannot run the job; the message has the cause and the remedy. Nothing was read or written."""


def no_executor(settings: Settings) -> str:
    """Why a job ended that waited for an executor, and what to do."""
    return (
        f"{settings.spark.master} {NO_EXECUTOR} within {settings.spark.executor_seconds} s "
        "(spark.executor_seconds): see whether its workers run, have free cores and memory for "
        "spark.executor.memory, and can connect to this driver (spark.driver_host)"
    )


def check(settings: Settings) -> None:
    """Refuse, before any work, what this process's environment lacks for the settings.

    Raises:
        SettingsError: credentials are not in the environment, the driver's address is loopback, or Spark jars are missing.
    """
    settings.catalog.credentials()
    settings.catalog.rest_credentials()
    settings.warehouse.s3_credentials()
    _jars(settings)
    spark = settings.spark
    if spark.is_local or spark.is_on_loopback or spark.driver_host:
        return
    name = os.environ.get("SPARK_LOCAL_HOSTNAME") or os.environ.get("SPARK_LOCAL_IP") or socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        address = name
    if is_loopback(address):
        raise SettingsError(
            f"executors of {spark.master} cannot connect to this driver: its host name {name} is the loopback address "
            f"{address}. Set spark.driver_host (TRACE_SPARK__DRIVER_HOST) to its address in their network"
        )


def submit_conf(settings: Settings) -> dict[str, str]:
    """Spark properties that must be set before the driver's JVM starts: for spark-submit and for `session`.

    They stand on the JVM's command line, which every user of the machine can read, so they hold no credentials. Those of
    `spark.conf`, such as `spark.authenticate.secret`, are set by `session_conf` inside the driver.
    """
    spark = settings.spark
    lineage = jars.jars(jars.LINEAGE) if settings.lineage.url else []
    ours = _jars(settings)
    conf = {
        "spark.driver.memory": spark.driver_memory,
        "spark.jars": ",".join([*ours, *map(str, lineage)]),
        # Spark puts these before the extraJavaOptions, which belong to the user.
        "spark.driver.defaultJavaOptions": " ".join(
            filter(None, [_DRIVER_OPTIONS, _huge_pages(), class_archive.options()])
        ),
        "spark.executor.defaultJavaOptions": _JAVA_OPTIONS,
        "spark.scheduler.mode": "FAIR",  # extractions of several clusters and the merge run side by side
        "spark.scheduler.allocation.file": str(Path(__file__).with_name("fair_scheduler.xml")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",  # the jobs print their own progress
        "spark.log.level": "WARN",
        # Hadoop ignores the umask of the process for local files; it uses the first value that is set.
        **({_HADOOP_UMASK: f"{UMASK:03o}"} if settings.warehouse_uri.startswith("file:") else {}),
        # Executors of a cluster read their configuration before they have the jar of this class.
        **({**_LOOPBACK, **_LOCAL_FILES} if spark.is_local else _of_cluster(settings)),
        **{name: value for name, value in spark.conf.items() if not _SECRET.search(name)},
    }
    # spark-submit needs these jars before it reads `spark.jars`, so a class path of the user is added to them.
    conf[CLASS_PATH] = ":".join(filter(None, [":".join(ours), spark.conf.get(CLASS_PATH)]))
    return conf


def _huge_pages() -> str:
    """The JVM's option to request huge pages, where Linux gives them on request.

    A plan is a tree of many small objects, all over the heap: with pages of 4 KB, the processor looks up more addresses.
    """
    try:
        return "-XX:+UseTransparentHugePages" if "[madvise]" in _HUGE_PAGES.read_text() else ""
    except OSError:
        return ""


def _of_cluster(settings: Settings) -> dict[str, str]:
    spark = settings.spark
    conf = {"spark.sql.iceberg.advisory-partition-size": str(_WRITE_TASK_BYTES)}
    if spark.driver_host:
        conf["spark.driver.host"] = spark.driver_host
    if spark.cores_max:
        conf["spark.cores.max"] = str(spark.cores_max)
    return conf


def _jars(settings: Settings) -> list[str]:
    """The jars that the settings ask for.

    Raises:
        MissingJarsError: a set was not downloaded.
    """
    sets = [jars.SPARK, *([jars.S3] if settings.warehouse.is_s3 else [])]
    return [str(jar) for ivy_file in sets for jar in jars.jars(ivy_file)]


def session_conf(settings: Settings) -> dict[str, str]:
    """The catalog, and the SQL settings that the jobs and the models require; set inside the driver's JVM only.

    Raises:
        SettingsError: credentials are not in the environment.
    """
    catalog = settings.catalog
    kind = {
        "sqlite": {"type": "jdbc", "jdbc.schema-version": "V1"},
        "postgres": {"type": "jdbc", "jdbc.schema-version": "V1"},
        "rest": {"type": "rest", **_rest(settings)},
    }[catalog.kind]
    if catalog.kind == "sqlite":
        # SQLite permits one writer at a time.
        kind["jdbc.busy_timeout"] = str(catalog.lock_seconds * 1000)
    if database := catalog.credentials():
        kind |= {"jdbc.user": database[0], "jdbc.password": database[1]}
    properties = {
        # Option names of Iceberg are case-insensitive, those of OpenLineage are not: see `_lineage`.
        "URI" if settings.lineage.url else "uri": settings.catalog_uri,
        **({"warehouse": settings.warehouse_uri} if catalog.kind != "rest" else {}),
        "cache-enabled": "false",
        **kind,
        **_s3_of_spark(settings),
    }
    return {
        _SPARK_CATALOG: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{_SPARK_CATALOG}.{name}": value for name, value in properties.items()},
        **_lineage(settings),
        "spark.sql.defaultCatalog": CATALOG,
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.ansi.enabled": "false",
        **{key: value for key, value in settings.spark.conf.items() if key != CLASS_PATH},
    }


def pyiceberg_properties(settings: Settings) -> dict[str, str]:
    """The properties of pyiceberg's catalog, without its type.

    Raises:
        SettingsError: credentials are not in the environment.
    """
    catalog, uri = settings.catalog, settings.catalog_uri.removeprefix("jdbc:")
    if catalog.kind == "rest":
        found = {"uri": uri, **_rest(settings)}
    elif catalog.kind == "sqlite":
        path = uri.removeprefix("sqlite:")
        found = {
            "uri": f"sqlite:///{path}?timeout={catalog.lock_seconds}",
            "warehouse": settings.warehouse_uri,
        }
    else:
        found = {"uri": _sqlalchemy(uri, catalog.credentials()), "warehouse": settings.warehouse_uri}
        # A database that was restarted closes its connections; a process that lives longer opens new ones.
        found["pool_pre_ping"] = "true"
    if settings.warehouse.is_s3:
        warehouse = settings.warehouse
        found |= {"s3.region": warehouse.region} | _prefixed("s3.", warehouse.s3_credentials())
        found["s3.force-virtual-addressing"] = str(not warehouse.path_style).lower()
        if warehouse.endpoint:
            found["s3.endpoint"] = warehouse.endpoint
    return found


def _sqlalchemy(uri: str, credentials: tuple[str, str] | None) -> str:
    from sqlalchemy import URL  # not at the top: Airflow imports this module in each task

    address = urlsplit(uri)
    user, password = credentials or (None, None)
    query = {POSTGRES_PARAMETERS[name]: value for name, value in parse_qsl(address.query)}
    # As the JDBC driver has it by default; libpq would wait for minutes.
    query.setdefault("connect_timeout", "10")
    # SQLAlchemy's default driver for Postgres is not the installed one.
    url = URL.create("postgresql+psycopg2", user, password, database=address.path[1:], query=query)
    hosts = [urlsplit(f"//{host}") for host in address.netloc.split(",")]
    if len(hosts) == 1:
        url = url.set(host=hosts[0].hostname, port=hosts[0].port)
    else:
        names, ports = [each.hostname or "" for each in hosts], [str(each.port or 5432) for each in hosts]
        url = url.update_query_dict({"host": ",".join(names), "port": ",".join(ports)})
    return url.render_as_string(hide_password=False)


def _rest(settings: Settings) -> dict[str, str]:
    catalog = settings.catalog
    optional = {
        "warehouse": catalog.warehouse,
        "oauth2-server-uri": catalog.oauth2_uri,
        "scope": catalog.scope,
    }
    return {name: value for name, value in optional.items() if value} | catalog.rest_credentials()


def _s3_of_spark(settings: Settings) -> dict[str, str]:
    warehouse = settings.warehouse
    if not warehouse.is_s3:
        return {}
    return {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": warehouse.region,
        "s3.path-style-access": str(warehouse.path_style).lower(),
        **({"s3.endpoint": warehouse.endpoint} if warehouse.endpoint else {}),
        **_prefixed("s3.", warehouse.s3_credentials()),
    }


def _prefixed(prefix: str, values: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}{name}": value for name, value in values.items()}


def executor_variables(settings: Settings) -> dict[str, str]:
    """The variables that executors need in their own environment: name to the setting that names it.

    They read the brokers themselves, so they need each cluster's secrets. The catalog's and the warehouse's credentials
    reach them with the tables, over Spark's own connections.
    """
    found = {}
    for number, cluster in enumerate(settings.clusters):
        if cluster.credentials_env:
            for name in ("ACCESS_KEY", "SECRET_KEY"):
                found[f"{cluster.credentials_env}_{name}"] = f"clusters[{number}].credentials_env"
    return found


def airflow_connection(settings: Settings) -> str:
    """Airflow's connection `spark_default`, as JSON: the master that the DAGs submit their jobs to."""
    master = settings.spark.master
    if master.startswith(("spark://", "k8s://")):
        scheme, _, rest = master.partition("://")
        host, _, port = rest.rpartition(":")
        if port.isdigit():
            return json.dumps({"conn_type": "spark", "host": f"{scheme}://{host}", "port": int(port)})
    return json.dumps({"conn_type": "spark", "host": master})


def catalog_address(settings: Settings) -> str:
    """The catalog's address without user, password and parameters."""
    uri = settings.catalog_uri
    if settings.catalog.kind == "sqlite":
        return uri.partition("?")[0]
    prefix = "jdbc:" if uri.startswith("jdbc:") else ""
    parts = urlsplit(uri.removeprefix("jdbc:"))
    return (
        f"{prefix}{urlunsplit((parts.scheme, parts.netloc.rpartition('@')[2], parts.path, '', ''))}".rstrip(
            "/"
        )
    )


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
