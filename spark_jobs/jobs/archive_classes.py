"""Job: write the class data sharing (CDS) archive that drivers start from. See `lake.class_archive`.

`python -m spark_jobs.jobs.archive_classes` runs this file with `spark-submit`. It does a small part of what the jobs
do; when the JVM exits, it archives the classes that it has loaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from spark_jobs.lake import class_archive, jars
from spark_jobs.lake.deployment import submit_conf
from spark_jobs.settings import PROJECT, Catalog, Limits, Lineage, Settings, Spark, Warehouse, load_settings


def make() -> Path:
    """Write the archive unless it exists, and delete archives of other jars and JVMs.

    Raises:
        SystemExit: the job that writes it failed; the message ends with its output.
    """
    path = class_archive.archive()
    if path.exists():
        return path
    print("set-up: archiving the Java classes of Spark and Iceberg (20 to 60 s)", file=sys.stderr, flush=True)
    started = time.monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob(class_archive.NAME.format("*")):
        old.unlink()
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        written = Path(scratch, "written.jsa")
        conf = submit_conf(own_settings(Path(scratch)))
        conf["spark.driver.extraJavaOptions"] = (
            f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={written} {class_archive.QUIET}"
        )
        done = subprocess.run(
            [
                str(jars.spark_home() / "bin" / "spark-submit"),
                *(f"--conf={key}={value}" for key, value in conf.items()),
                __file__,
                scratch,
            ],
            env=os.environ | {"PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
        )
        if done.returncode or not written.exists():
            sys.exit(f"could not write the class archive {path}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
        written.rename(path)
    print(f"set-up: classes archived in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return path


def own_settings(home: Path) -> Settings:
    """Settings of a lake below `home` on this machine, whatever catalog, warehouse and cluster are configured."""
    return load_settings(
        home=home, catalog=Catalog(), warehouse=Warehouse(), spark=Spark(), lineage=Lineage()
    )


def train(home: Path) -> None:
    """Create the tables, then write, decode, merge and query a few rows, in a lake of its own."""
    from spark_jobs.lake import tables
    from spark_jobs.lake.session import session
    from spark_jobs.trace.merge import rows_of

    spark = session("class archive", own_settings(home))
    tables.ensure(spark)
    raw, events = tables.RAW.full_name, tables.EVENTS.full_name
    given = {
        "cluster": "'c'",
        "queue_offset": "id",
        "store_time": "current_timestamp()",
        "body": "'SubAfter'",
    }
    row = [f"cast({given.get(c.name, 'null')} as {c.type}) as {c.name}" for c in tables.RAW.columns]
    spark.sql(f"select {', '.join(row)} from range(10)").writeTo(raw).append()
    for change_seq in (1, 2):
        rows_of(spark.table(raw), Limits(), change_seq).createOrReplaceTempView("batch")
        spark.sql(
            f"merge into {events} t using batch s on t.queue_offset = s.queue_offset and t.store_time = s.store_time "
            "when not matched then insert *"
        )
    spark.sql(f"select raw, max(queue_offset) last from {events} group by raw order by last").collect()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]))
    else:
        print(f"classes of Spark and Iceberg: {make()}")
