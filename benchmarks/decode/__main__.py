"""`make bench-decode`: the decoder beside DuckDB's plain split of the same bytes and a decoder in plain Python.

All read the same Parquet files on two cores and give every record. Then decode runs in a small heap, over as much and
over several times as much. Exits with 1 if a target is missed or the numbers of records differ.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import targets
from benchmarks.decode import bodies, duck, memory, python_udf
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings, load_settings
from spark_jobs.settings_deployment import Spark
from spark_jobs.trace.decode import decode

BODIES, THREADS, WARM_UP, ROUNDS = 102_000, 2, 4, 5
# Wall time of ours over theirs; memory over many bodies over that over few.
AT_MOST = {"decode_vs_duckdb": 3.5, "decode_vs_python_udf": 0.35, "memory_many_vs_few": 1.3}
_console = Console(width=120, highlight=False)


def main() -> int:
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="decode-", dir=home) as scratch:
        folder = Path(scratch)
        records, size = bodies.write(folder / "bodies", BODIES)
        _console.print(
            f"{records:,} records of {len(bodies.MIX)} layouts in {BODIES:,} bodies, {size / 1e6:.0f} MB; "
            f"{bodies.BAD_SHARE:.0%} of the records are bad"
        )
        settings = Settings(home=folder, spark=Spark(master=f"local[{THREADS}]"))
        times = _race(session("bench decode", settings), folder / "bodies", records)
        heap = memory.peaks(folder / "bodies")
    _show(times, records)
    _console.print(f"the most that lived on a heap of {memory.HEAP_MB} MB: ", end="")
    _console.print(", ".join(f"{peak:.0f} MB over {bodies:,} bodies" for bodies, peak in heap))
    (_, few), (_, many) = heap
    middle = {name: statistics.median(each) for name, each in times.items()}
    ratios = {
        "decode_vs_duckdb": middle["ours"] / middle["DuckDB, plain split"],
        "decode_vs_python_udf": middle["ours"] / middle["plain Python UDF"],
        "memory_many_vs_few": many / few,
    }
    return targets.report(_console, ratios, AT_MOST)


def _race(spark: SparkSession, folder: Path, records: int) -> dict[str, list[float]]:
    """The seconds of each contestant in each round, after some to warm up: the JVM compiles for several seconds."""
    messages = spark.read.parquet(str(folder))
    connection = duck.connect(folder, THREADS)
    assert decode(messages).count() == records
    assert python_udf.records(messages).count() == records
    assert duck.split(connection) == records
    contestants: dict[str, Callable[[], object]] = {
        "ours": lambda: _run(decode(messages)),
        "DuckDB, plain split": lambda: duck.split(connection),
        "plain Python UDF": lambda: _run(python_udf.records(messages)),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for turn in range(-WARM_UP, ROUNDS):
        for name in names[turn % 3 :] + names[: turn % 3]:
            begin = time.perf_counter()
            contestants[name]()
            if turn >= 0:
                times[name].append(time.perf_counter() - begin)
        if turn >= 0:
            _console.print(f"round {turn + 1}: " + ", ".join(f"{n} {t[-1]:.2f} s" for n, t in times.items()))
    return times


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _show(times: dict[str, list[float]], records: int) -> None:
    table = Table(title="the same bodies, decoded by each", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("decoder")
    for heading in ("median s", "min s", "max s", "records/s"):
        table.add_column(heading, justify="right")
    for name, each in times.items():
        middle = statistics.median(each)
        table.add_row(name, *(f"{s:.2f}" for s in (middle, min(each), max(each))), f"{records / middle:,.0f}")
    _console.print(table)


if __name__ == "__main__":
    sys.exit(main())
