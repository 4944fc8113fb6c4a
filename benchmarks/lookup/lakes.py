"""Two lakes with the traffic of the same 30 days: 20 M trace records, and 2 M.

They are built with a heap of 6 GB, in the cache folder, where they stay: a lake is bound to its folder. The traffic is
written again when what writes it changes; the marts when the models that the look-up reads change (`_MODELS`), and not
at each change of another model, since that takes half an hour. With TRACE_BENCH_REBUILD set everything is.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from benchmarks import history
from benchmarks.lookup import ids, traffic
from benchmarks.lookup.marts import refresh
from spark_jobs.lake import tables
from spark_jobs.lake.jars import cache_folder
from spark_jobs.lake.session import session
from spark_jobs.mart_build.definitions import DBT_PROJECT
from spark_jobs.settings import Settings
from spark_jobs.settings_deployment import Spark
from spark_jobs.trace import layouts

MANY, FEW = 20_000_000, 2_000_000
_HEAP = "6g"
_READ_BY_THE_LOOK_UP = [
    "path:models/marts/facts",
    "path:models/marts/dimensions",
    *("send_latency", "queue_wait", "consume_latency", "end_to_end_latency", "clock_skew", "invalid_records"),
    "int_identifier_hours",
]
_SELECTED = ("--select", *(f"+{selector}" for selector in _READ_BY_THE_LOOK_UP))
_TRAFFIC = [Path(str(module.__file__)) for module in (history, layouts, ids, traffic)] + [
    tables.SOURCES / "raw.yml",
    tables.SOURCES / "events.yml",
]
_MODELS = sorted((DBT_PROJECT / "models").rglob("*_identifier*.sql"))


def built(console: Console) -> dict[int, Settings]:
    """The number of records to the settings of the lake that has them; what is missing is built."""
    folder = cache_folder() / "benchmarks" / f"lookup-{_digest(_TRAFFIC)}"
    return {records: _built(folder / f"{records // 1_000_000}m", records, console) for records in (FEW, MANY)}


def _built(home: Path, records: int, console: Console) -> Settings:
    settings = Settings(home=home, spark=Spark(master="local[2]", driver_memory=_HEAP))
    has_traffic, has_marts = home / "traffic", home / f"marts-{_digest(_MODELS)}"
    if os.environ.get("TRACE_BENCH_REBUILD") or not has_traffic.exists():
        shutil.rmtree(home, ignore_errors=True)
    if not has_marts.exists():
        begin = time.monotonic()
        spark = session("bench lookup", settings)
        tables.ensure(spark)
        if not has_traffic.exists():
            traffic.write(spark, settings, records)
            has_traffic.touch()
            console.print(f"{records:,} records written after {time.monotonic() - begin:.0f} s")
        refresh(spark, settings, True, *_SELECTED)
        has_marts.touch()
        spark.stop()
        console.print(f"and their marts after {time.monotonic() - begin:.0f} s")
    return settings


def _digest(files: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
