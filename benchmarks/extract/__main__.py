"""`make bench-extract`: our client beside the official Java client and the PyPI wheel, on a real broker.

All read the same range of the same topic from its broker's page cache, on this machine. Exits with 1 if a target is
missed or a contestant read something else than was written.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import targets
from benchmarks.extract import contestants, machine, memory, rounds, topic
from sandbox.broker import Sandbox, rocketmq
from spark_jobs.settings import load_settings

# Throughput of ours over theirs; `memory_long_vs_short` must stay below its figure.
AT_LEAST = {"vs_java_single": 1.0, "vs_java_parallel": 1.5, "vs_rocketmq_044": 1.5, "with_5ms_rtt": 0.8}
AT_MOST = {"memory_long_vs_short": 1.3}

_console = Console(width=130, highlight=False)


def main() -> int:
    begin = time.monotonic()
    home = load_settings().home.resolve() / "bench"
    home.mkdir(parents=True, exist_ok=True)
    _console.print(f"machine: {machine.description()}", soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="extract-", dir=home) as scratch:
        folder = Path(scratch)
        # Killed at the end: its files are temporary.
        with rocketmq(
            folder / "rocketmq", java_options=["-XX:TieredStopAtLevel=4"], stop_in_order=False
        ) as sandbox:
            ratios = _bench(sandbox, home, folder)
    code = targets.report(_console, ratios, AT_MOST, AT_LEAST)
    _console.print(f"{time.monotonic() - begin:.0f} s in all")
    return code


def _bench(sandbox: Sandbox, home: Path, folder: Path) -> dict[str, float]:
    """Everything between the broker's start and its end; the ratios by name."""
    _console.print("the official Java client writes the topic")
    written = topic.write(sandbox.namesrv, sandbox.broker_name, folder)
    _console.print(f"topic: {written}", soft_wrap=True)
    with contestants.started(written, sandbox.broker_address, home, folder) as racing:
        near, far = (racing[name].children[0].ready[0] for name in (contestants.NEAR, contestants.FAR))
        _console.print(f"round trip of a small request through the proxy: {near} ms, and delayed: {far} ms")
        race = rounds.Race(racing, (sandbox.broker_pid, sandbox.namesrv_pid), written, _console)
        race.warm_up()
        reads = race.run()
    short, long = memory.growth(written, folder, _console)
    _show(reads, written)
    _console.print(
        f"memory of a task grows by {short:.0f} MB over a tenth of the topic, by {long:.0f} MB over all of it"
    )
    _console.print(memory.bound(), soft_wrap=True)
    seconds = {name: rounds.median(each) for name, each in reads.items()}
    java = min((contestants.PULL, contestants.LITE), key=lambda name: seconds[name])
    _console.print(f"vs_java is against {java}, the faster of the consumers that an application would use")
    return {
        "vs_java_single": seconds[java] / seconds[contestants.SINGLE],
        "vs_java_parallel": seconds[java] / seconds[contestants.PARALLEL],
        "vs_java_async": seconds[contestants.ASYNC] / seconds[contestants.SINGLE],
        "vs_java_async_parallel": seconds[contestants.ASYNC] / seconds[contestants.PARALLEL],
        "vs_rocketmq_044": seconds[contestants.WHEEL] / seconds[contestants.SINGLE],
        "with_5ms_rtt": seconds[contestants.NEAR] / seconds[contestants.FAR],
        "memory_long_vs_short": long / short,
    }


def _show(reads: dict[str, list[rounds.Read]], written: topic.Topic) -> None:
    table = Table(title="the same range, read by each", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("client")
    for heading in ("rounds", "median s", "min s", "max s", "messages/s", "MB/s", "others used"):
        table.add_column(heading, justify="right")
    for name, each in reads.items():
        seconds, middle = [read.seconds for read in each], rounds.median(each)
        table.add_row(
            name,
            str(len(each)),
            *(f"{value:.2f}" for value in (middle, min(seconds), max(seconds))),
            f"{written.messages / middle:,.0f}",
            f"{written.body_bytes / middle / 1e6:.0f}",
            f"{max(read.others for read in each):.0%}",
        )
    _console.print(table)


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    logging.getLogger("sandbox").setLevel(logging.INFO)
    sys.exit(main())
