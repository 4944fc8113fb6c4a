"""`python -m sandbox.steady NAMESRV TOPIC RATE HOME [--seconds S]`: a producer and a consumer of one topic, with their traces.

It sends RATE messages per second by the official Java client, for so many seconds or until SIGTERM, whatever the broker does.
Each message is consumed once. Exits with 1 if a send failed; it is not repeated.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox import admin, java_client
from sandbox.java_client import Subscription, Tracing
from spark_jobs.settings import PROJECT


def command(namesrv: str, topic: str, rate: float, home: Path, seconds: float | None = None) -> list[str]:
    """The command line of this program."""
    limit = [] if seconds is None else ["--seconds", str(seconds)]
    return [sys.executable, "-m", "sandbox.steady", namesrv, topic, str(rate), str(home), *limit]


@contextmanager
def traffic(namesrv: str, topic: str, rate: float, home: Path) -> Iterator[subprocess.Popen[str]]:
    """Send and consume until the end of the block, in a process of its own, which is ready when the block begins."""
    process = subprocess.Popen(
        command(namesrv, topic, rate, home), cwd=PROJECT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("namesrv")
    parser.add_argument("topic")
    parser.add_argument("rate", type=float)
    parser.add_argument("home", type=Path, help="of the clients' logs")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    producers, consumers = f"{args.topic}-producers", f"{args.topic}-consumers"
    ends = threading.Event()
    java_client.start_jvm(args.home)
    signal.signal(signal.SIGTERM, lambda *_: ends.set())  # the JVM has set its own
    with admin.connected(args.namesrv) as tool:
        admin.create_topic(tool, args.topic, 4)
        admin.create_topic(tool, f"%RETRY%{consumers}", 1)
    subscription = Subscription(consumers, {args.topic: "*"})
    consumer = java_client.consumer(
        args.namesrv, subscription, f"consumer#{os.getpid()}", Tracing(), lambda *_: "success"
    )
    java_client.wait_for_queues(consumer)
    producer = java_client.producer(args.namesrv, producers, f"producer#{os.getpid()}", Tracing())
    print("ready", flush=True)
    sent = failed = 0
    begin = due = time.monotonic()
    while sent + failed < args.rate * args.seconds and not ends.wait(max(0.0, due - time.monotonic())):
        try:
            producer.java.send(java_client.message(args.topic, "x" * 120, keys=f"{args.topic}-{sent}"))
            sent += 1
        except Exception:  # of Java: the broker is away
            failed += 1
        # Sends that are late are not made up for after a broker was away: that would be another traffic.
        due = max(due + 1 / args.rate, time.monotonic() - 1)
    java_client.shut_down([producer, consumer])
    print(f"{sent} messages in {time.monotonic() - begin:.1f} s, {failed} sends failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
