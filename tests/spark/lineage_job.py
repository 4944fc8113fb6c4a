"""A Spark application of its own that reports lineage to a sink in its own process; prints what the sink received.

The sink answers while one table is written, is gone for the next, and for the last takes connections and never answers.
A job that fails on any of it ends with a code.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.lake.session import session
from spark_jobs.settings import Lineage, Settings
from tests.lineage_sink import Sink, wrote


def main(home: str) -> None:
    sink = Sink()
    lineage = Lineage(url=f"http://127.0.0.1:{sink.port}", timeout_seconds=1)
    spark = session("lineage", Settings(home=Path(home), lineage=lineage))
    SparkSession.builder.enableHiveSupport().getOrCreate()  # as dbt does for each statement
    spark.sql("create namespace if not exists lake.t")
    spark.sql("create table lake.t.source as select 1 as one")
    spark.sql("create table lake.t.written as select * from lake.t.source")
    sink.wait_for(wrote("t.written"), 30)
    sink.close()
    spark.sql("create table lake.t.dead as select * from lake.t.source")
    with socket.create_server(("127.0.0.1", sink.port)):
        spark.sql("create table lake.t.mute as select * from lake.t.source")
        rows = spark.table("lake.t.mute").count()
        started = time.monotonic()
        spark.stop()
    print(json.dumps({"events": sink.events, "rows": rows, "stop_seconds": time.monotonic() - started}))


if __name__ == "__main__":
    main(sys.argv[1])
