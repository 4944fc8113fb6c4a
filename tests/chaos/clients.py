"""`python -m tests.chaos.clients NAMESRV RATE HOME`: traced sends and consumptions until SIGTERM, whatever the broker does."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from sandbox import admin, java_client
from sandbox.java_client import Subscription, Tracing

TOPIC, PRODUCERS, CONSUMERS = "chaos", "chaos-producers", "chaos-consumers"


def main() -> None:
    namesrv, rate, home = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    ends = threading.Event()
    java_client.start_jvm(home)
    signal.signal(signal.SIGTERM, lambda *_: ends.set())  # the JVM has set its own
    with admin.connected(namesrv) as tool:
        admin.create_topic(tool, TOPIC, 4)
        admin.create_topic(tool, f"%RETRY%{CONSUMERS}", 1)
    consumer = java_client.consumer(
        namesrv,
        Subscription(CONSUMERS, {TOPIC: "*"}),
        f"consumer#{os.getpid()}",
        Tracing(),
        lambda *_: "success",
    )
    java_client.wait_for_queues(consumer)
    producer = java_client.producer(namesrv, PRODUCERS, f"producer#{os.getpid()}", Tracing())
    print("ready", flush=True)
    sent = failed = 0
    next_send = time.monotonic()
    while not ends.is_set():
        ends.wait(max(0.0, next_send - time.monotonic()))
        next_send = max(next_send + 1 / rate, time.monotonic())
        try:
            producer.java.send(java_client.message(TOPIC, "x" * 120, keys=f"chaos-{sent}"))
            sent += 1
        except Exception:  # of Java: the broker is away
            failed += 1
    java_client.shut_down([producer, consumer])
    print(f"{sent} messages were sent, {failed} sends failed", flush=True)


if __name__ == "__main__":
    main()
