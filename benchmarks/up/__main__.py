"""`make bench-up`: what `make up` costs without traffic, and how long after a send the published marts have the message.

All of `make up` runs with default schedules. First nothing is sent: CPU seconds of all its processes, with the Spark driver, per
second. Then 100 messages per second are sent and consumed, with traces. A reader outside opens each new serving file and
notes which sends it has, so a figure is from the send by the producer's clock to a file that has it. Exits with 1 if a target
is missed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import psutil
from rich.console import Console

from benchmarks import targets
from benchmarks.extract.machine import description
from deploy.up import State
from sandbox import steady
from sandbox.broker import rocketmq
from spark_jobs.serving.contents import ServingFileError, current_file
from spark_jobs.settings import PROJECT, Cluster, Settings, load_settings

AT_MOST = {"rest_cpu_share": 0.15, "freshness_p95_s": 120.0}
SETTLE_SECONDS, LAST_SECONDS = 240, 600
TOPIC = "bench-up"
_console = Console(width=120, highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rest", type=float, default=15, help="minutes without traffic")
    parser.add_argument("--traffic", type=float, default=15, help="minutes with traffic")
    parser.add_argument("--rate", type=float, default=100, help="messages per second")
    args = parser.parse_args()
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    _console.print(f"machine: {description()}", soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="up-", dir=home) as scratch:
        folder = Path(scratch)
        with rocketmq(folder / "rocketmq", stop_in_order=False) as sandbox:
            cluster = Cluster(name="live", namesrv=[sandbox.namesrv])
            environment = os.environ | {
                "TRACE_HOME": str(folder / "home"),
                "TRACE_CLUSTERS": json.dumps([cluster.model_dump(exclude_none=True)]),
                "PYTHONPATH": str(PROJECT),
            }
            settings = Settings(home=folder / "home", clusters=[cluster])
            try:
                _up("up", environment)
                ratios = _measure(settings, sandbox.namesrv, folder, args)
            finally:
                _up("down", environment)
    return targets.report(_console, ratios, AT_MOST)


def _measure(settings: Settings, namesrv: str, folder: Path, args: argparse.Namespace) -> dict[str, float]:
    clients = folder / "clients"
    subprocess.run(
        steady.command(namesrv, TOPIC, 10, clients, 10), cwd=PROJECT, check=True
    )  # a first publication
    time.sleep(SETTLE_SECONDS)
    before = _seconds(settings)
    time.sleep(args.rest * 60)
    share = (_seconds(settings) - before) / (args.rest * 60)
    _console.print(f"{args.rest:g} minutes without traffic: {share:.3f} of a core")

    sent_from = time.time()
    sending = subprocess.Popen(
        steady.command(namesrv, TOPIC, args.rate, clients, args.traffic * 60), cwd=PROJECT
    )
    before, begin = _seconds(settings), time.monotonic()
    delays, published = _watch(settings, sent_from, sending, round(args.rate * args.traffic * 60))
    busy = (_seconds(settings) - before) / (time.monotonic() - begin)
    p50, p95 = statistics.median(delays), statistics.quantiles(delays, n=20)[18]
    _console.print(
        f"{len(delays):,} sends at {args.rate:g} per second: in the published marts after {p50:.0f} s (median), {p95:.0f} s "
        f"(p95), {max(delays):.0f} s (maximum); a publication every {statistics.median(_gaps(published)):.0f} s (median), "
        f"{max(_gaps(published)):.0f} s (maximum); {busy:.2f} cores are busy",
        soft_wrap=True,
    )
    return {"rest_cpu_share": share, "freshness_p95_s": p95}


def _watch(
    settings: Settings, sent_from: float, sending: subprocess.Popen[bytes], expected: int
) -> tuple[list[float], list[float]]:
    """Until all sends are in a serving file: seconds from each send to the file that has it first, and when such files came."""
    delays: list[float] = []
    published: list[float] = []
    seen, known, end = 0, None, None
    while len(delays) < expected:
        time.sleep(0.5)
        if end is None and sending.poll() is not None:
            assert sending.returncode == 0
            end = time.monotonic()
        assert end is None or time.monotonic() - end < LAST_SECONDS, (
            f"{len(delays)} of {expected} are published"
        )
        try:
            file = current_file(settings)
        except ServingFileError:
            continue
        if file == known:
            continue
        at, known = time.time(), file
        with duckdb.connect(str(file), read_only=True) as connection:
            rows = connection.execute(
                "select epoch_ms(event_time) / 1000.0, change_seq from marts.fct_sends "
                "where topic = ? and change_seq > ? and event_time >= to_timestamp(?)::timestamp",
                [TOPIC, seen, sent_from],
            ).fetchall()
        delays += [at - sent for sent, _ in rows]
        published += [at] if rows else []
        seen = max([seen, *(change_seq for _, change_seq in rows)])
    return delays, published


def _gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(times)]


def _seconds(settings: Settings) -> float:
    """CPU seconds of all processes of `make up`, also of those that have ended."""
    serve = State(settings).supervisor()
    assert serve is not None, "make up has ended"
    leader = psutil.Process(serve)
    total = 0.0
    for each in (leader, *leader.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _up(command: str, environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = subprocess.run(
        [sys.executable, "-m", "deploy.up", command, "--port", str(port)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
