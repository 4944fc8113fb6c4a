"""`make bench-scale`: each stage of a batch of 1 M records in lakes of 1, 5 and 20 M; the memory of 1 M and 5 M messages a run.

The batch comes from a real broker; the records that a lake has before are written directly. All of it is one warm JVM, but for
the memory, which is that of processes of their own. Exits with 1 if a target is missed; the targets are those of the default
sizes.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks import targets
from benchmarks.extract.machine import description
from benchmarks.scale import memory, plain, show
from benchmarks.scale.batches import (
    APPEND,
    CHECKS,
    EXTRACT,
    MARTS,
    MERGE,
    READ_AND_APPEND,
    Batches,
    Costs,
    race,
)
from benchmarks.scale.lakes import build_lakes
from benchmarks.scale.stored import stored
from benchmarks.scale.traffic import Traffic, trace_messages
from benchmarks.scale.used import Gauge
from sandbox.broker import rocketmq
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings, load_settings
from spark_jobs.settings_deployment import Spark

MILLIONS, BATCH, MESSAGES, ROUNDS = [1.0, 5.0, 20.0], 1.0, [1.0, 5.0], 3
# The lakes' session builds all marts of the largest lake, which a job does only after a change of the models.
DRIVER_MEMORY = "4g"
# Runs of the batch before the first that is measured. The builds of all marts warm the JVM up, too; without them, the JVM still
# compiles in the first three.
WARM_UP, WARM_UP_WITHOUT_MARTS = 1, 3
AT_MOST = {
    "batch_in_20m_vs_1m": 1.15,
    "checks_20m_vs_1m": 1.1,
    "events_vs_append": 2.0,
    "memory_5m_vs_1m": 1.2,
}
_console = Console(width=150, highlight=False)


def main() -> int:
    args = _arguments()
    begin = time.monotonic()
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    _console.print(f"machine: {description()}", soft_wrap=True)
    ratios: dict[str, float] = {}
    if args.messages:
        with tempfile.TemporaryDirectory(prefix="scale-", dir=home) as scratch:
            runs = memory.measure(Path(scratch), [round(each * 1e6) for each in args.messages], _console)
        show.runs(_console, runs)
        sizes = args.messages[-1], args.messages[0]
        ratios[_name("memory", *sizes)] = runs[-1].memory / runs[0].memory
        _console.print(f"({time.monotonic() - begin:.0f} s until here)")
    with tempfile.TemporaryDirectory(prefix="scale-", dir=home) as scratch:
        ratios |= _lakes(Path(scratch), args.millions, args.batch, args.rounds, not args.no_marts)
    code = targets.report(_console, ratios, AT_MOST)
    _console.print(f"({time.monotonic() - begin:.0f} s in all)")
    return code


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, nargs="+", default=MILLIONS, help="records of the lakes")
    parser.add_argument("--batch", type=float, default=BATCH, help="millions of records of the batch")
    what = "millions of messages of the runs whose memory is measured; none: it is not"
    parser.add_argument("--messages", type=float, nargs="*", default=MESSAGES, help=what)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--no-marts", action="store_true", help="from the broker to events only; minutes instead of an hour"
    )
    args = parser.parse_args()
    args.millions.sort()
    args.messages.sort()
    return args


def _lakes(
    folder: Path, millions: list[float], batch: float, rounds: int, with_marts: bool
) -> dict[str, float]:
    """Build the lakes, run the batch in each, print the tables; return the ratios."""
    settings = Settings(home=folder / "home", spark=Spark(master="local[2]", driver_memory=DRIVER_MEMORY))
    traffic = Traffic(int(time.time() * 1000), trace_messages(millions[-1]), trace_messages(batch))
    with rocketmq(folder / "rocketmq", stop_in_order=False) as sandbox:
        spark = session("bench scale", settings)
        gauge = Gauge(spark, settings.home / "warehouse")
        cluster = traffic.send(spark, sandbox, folder)
        _console.print(f"a batch of {traffic.batch:,} trace messages is on the broker")
        lakes = build_lakes(spark, settings, traffic, millions, gauge, _console, with_marts)
        batches = Batches(spark, settings, cluster, traffic.batch, gauge, with_marts)
        warm_up = WARM_UP if with_marts else WARM_UP_WITHOUT_MARTS
        for _ in range(warm_up):
            batches.run(lakes[0], with_plain=True)  # its records have the change_seq after that of the lake
        _console.print(f"the batch has {batches.records:,} records; {warm_up} run(s) of it warmed the JVM up")
        environment = os.environ | {"TRACE_HOME": str(settings.home)}
        same_rows = plain.measured(environment, 2, folder / "same.parquet")
        kinds = stored(lake(settings), lakes[-1].state)
        costs = race(batches, lakes, rounds, _console)
        spark.stop()
    for each in lakes:
        show.lake(_console, each, batches.records, costs[each.millions], same_rows)
    show.what_is_stored(_console, lakes[-1].records, kinds)
    return _ratios(costs, millions, batch)


def _ratios(costs: dict[float, Costs], millions: list[float], batch: float) -> dict[str, float]:
    small, large = costs[millions[0]], costs[millions[-1]]
    events = statistics.median(show.whole(large, (EXTRACT, MERGE, CHECKS)))
    appended, read = (show.middle(large[name]).cpu for name in (APPEND, READ_AND_APPEND))
    of_batch = "" if batch == BATCH else f"_of_{batch:g}m"
    sizes = millions[-1], millions[0]
    batches = {
        _name(f"batch{of_batch}_in", *sizes): statistics.median(show.whole(large))
        / statistics.median(show.whole(small))
    }
    return (batches if MARTS in small else {}) | {
        _name(f"checks{of_batch}", *sizes): show.middle(large[CHECKS]).cpu / show.middle(small[CHECKS]).cpu,
        f"events_vs_append{of_batch}": events / appended,
        f"events_vs_read_and_append{of_batch}": events / read,
    }


def _name(what: str, large: float, small: float) -> str:
    return f"{what}_{large:g}m_vs_{small:g}m"


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    logging.getLogger("sandbox").setLevel(logging.INFO)
    sys.exit(main())
