"""The Spark properties of a driver that must be set before its JVM starts.

Airflow imports this each time it parses a DAG file, and in each task: it imports neither pyspark nor pyiceberg.
"""

from __future__ import annotations

from spark_jobs.lake import class_archive, jars
from spark_jobs.process.home import UMASK
from spark_jobs.settings import Settings

# Generated methods are large: Iceberg's may exceed the size above which the JVM does not compile a method, and the
# decoder's the size from which it stops inlining. The parallel garbage collector does less work for each written object
# than the JVM's default, which is designed for short pauses; for batch jobs throughput matters.
_JAVA_OPTIONS = "-XX:-DontCompileHugeMethods -XX:-ClipInlining -XX:+UseParallelGC"
# After an OutOfMemoryError a driver may wait forever for a dead thread: it exits instead, and the next run repeats the work.
_DRIVER_OPTIONS = f"{_JAVA_OPTIONS} -XX:+ExitOnOutOfMemoryError"
# Hadoop's own class for local files starts a `chmod` process for each file and directory that it creates, which takes
# longer than writing a small file. This one sets permissions by a system call.
_LOCAL_FILES = {"spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"}
CLASS_PATH = "spark.driver.extraClassPath"
_HADOOP_UMASK = "spark.hadoop.fs.permissions.umask-mode"
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def submit_conf(settings: Settings) -> dict[str, str]:
    """Spark properties that must be set before the driver's JVM starts: for spark-submit and for `session`."""
    lineage = jars.jars(jars.LINEAGE) if settings.lineage.url else []
    ours = ":".join(map(str, jars.jars(jars.SPARK)))
    conf = {
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.jars": ",".join(map(str, [*jars.jars(jars.SPARK), *lineage])),
        # Spark puts these before the extraJavaOptions, which belong to the user.
        "spark.driver.defaultJavaOptions": f"{_DRIVER_OPTIONS} {class_archive.options()}".rstrip(),
        "spark.executor.defaultJavaOptions": _JAVA_OPTIONS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",  # the jobs print their own progress
        "spark.log.level": "WARN",
        # Hadoop ignores the umask of the process for local files; it uses the first value that is set.
        **({_HADOOP_UMASK: f"{UMASK:03o}"} if settings.warehouse.startswith("file:") else {}),
        # Executors of a cluster read their configuration before they have the jar of this class.
        **({**_LOOPBACK, **_LOCAL_FILES} if settings.spark_master.startswith("local") else {}),
        **settings.spark_conf,
    }
    # spark-submit needs these jars before it reads `spark.jars`, so a class path of the user is added to them.
    conf[CLASS_PATH] = ":".join(filter(None, [ours, settings.spark_conf.get(CLASS_PATH)]))
    return conf
