"""One application of the demo's shop, in a process of its own: `python -m sandbox.app`.

It takes commands on standard input, one per line, and answers each with one JSON line on standard output: `prepare` (create the
topics), `connect`, `send`, `send-late`, `stop`. `sandbox.traffic` starts it; it ends at the end of its input.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import admin, java_client, releases, scenarios
from sandbox.java_client import TracedClient
from sandbox.record import Offsets, RecordWriter
from sandbox.scenarios import Send

SLOW_SECONDS = 61.0  # a consume timeout is a minute at least, and marked when the listener returns


def now_ms() -> int:
    """The current time, ms since 1970, as the Java client reads it."""
    return time.time_ns() // 1_000_000


@dataclass
class Application:
    """The clients of one process, and their commands."""

    name: str
    namesrv: str
    messages: int
    full: bool
    run_folder: Path
    release: releases.Release

    def __post_init__(self) -> None:
        self._app = scenarios.app(self.name)
        self._record = RecordWriter(self.run_folder, self.name, self.release.version)
        self._producers: dict[str, TracedClient] = {}
        self._consumers: list[TracedClient] = []
        self._closing = threading.Event()

    def prepare(self) -> Offsets:
        """Create all topics, so that consumers are assigned queues; return the offsets of the trace topics."""
        with admin.connected(self.namesrv) as tool:
            for topic in (*scenarios.TOPICS, scenarios.CUSTOM_TRACE_TOPIC, java_client.CLOUD_TRACE_TOPIC):
                admin.create_topic(tool, topic, scenarios.QUEUES if topic in scenarios.TOPICS else 1)
            for group in scenarios.CONSUMERS_OF_GROUP:
                # Otherwise created by the first connection of a group, and found by its clients 30 s later.
                admin.create_topic(tool, f"%RETRY%{group}", 1)
            return admin.offsets(tool, scenarios.TRACE_TOPICS)

    def connect(self) -> None:
        """Start all clients; return when each consumer has queues."""
        for number, (subscription, tracing) in enumerate(self._app.consumers):
            instance = f"{self._app.name}-{number}"
            # A broadcast consumer finds its stored offsets by this name, so the name has no pid.
            if not subscription.broadcast:
                instance += f"#{os.getpid()}"
            self._consumers.append(
                java_client.consumer(
                    self.namesrv, subscription, instance, tracing, self._handler(subscription)
                )
            )
        for number, spec in enumerate(self._app.producers):
            instance = f"{self._app.name}-p{number}#{os.getpid()}"
            self._producers[spec.group] = java_client.producer(
                self.namesrv,
                spec.group,
                instance,
                spec.tracing,
                self._decider(spec.group, f"127.0.0.1@{instance}", spec.tracing.destination)
                if spec.transactional
                else None,
            )
        for consumer in self._consumers:
            java_client.wait_for_queues(consumer)

    def send(self) -> None:
        """Send the special messages among the bulk, each producer in a thread of its own."""
        bulk = scenarios.bulk_sends(self._app.name, self.messages)
        special = scenarios.special_sends(self._app.name, self.full)
        self._send_all([*bulk[: len(bulk) // 4], *special, *bulk[len(bulk) // 4 :]])

    def send_late(self) -> None:
        """Send the messages that must follow after the groups have consumed others."""
        self._send_all(scenarios.late_sends(self._app.name))

    def stop(self) -> None:
        """Flush the trace and close all clients; producers last, as transaction checks may still run."""
        java_client.shut_down(self._consumers)
        self._closing.set()
        java_client.shut_down(list(self._producers.values()))
        self._record.close()

    def _send_all(self, sends: Iterable[Send]) -> None:
        failures: list[BaseException] = []

        def run(group: str) -> None:
            try:
                for send in sends:
                    if send.producer == group:
                        self._send_one(self._producers[group], send)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(spec.group,)) for spec in self._app.producers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def _send_one(self, producer: TracedClient, send: Send) -> None:
        producer.pace()
        key = f"{send.topic}-{uuid.uuid4().hex[:12]}"
        messages = []
        for copy in range(send.copies):
            messages.append(
                java_client.message(
                    send.topic,
                    json.dumps({"key": key, "copy": copy, "kind": send.kind, "text": "x" * 120}),
                    tags=send.tags,
                    keys=f"{key}-{copy}" if send.copies > 1 else key,
                    delay_level=send.delay_level,
                    properties=send.properties,
                )
            )
        result, begin, elapsed = self._call(producer, send, messages, key)
        queue = result.getMessageQueue() if result else None
        ids = [java_client.unique_id(m) for m in messages]
        self._record.write(
            "send",
            kind=send.kind,
            producer_group=send.producer,
            client_id=producer.client_id,
            topic=send.topic,
            msg_id=str(result.getMsgId()) if result else ids[0],
            msg_ids=ids,
            offset_msg_id=_text(result.getOffsetMsgId()) if result else None,
            keys=key,
            tags=send.tags,
            batch_size=send.copies,
            body_length=sum(len(m.getBody()) for m in messages),
            delay_level=send.delay_level,
            status=str(result.getSendStatus()) if result else None,
            broker=str(queue.getBrokerName()) if queue else None,
            queue_id=int(queue.getQueueId()) if queue else None,
            queue_offset=int(result.getQueueOffset()) if result else None,
            sent_at_ms=begin,
            cost_ms=round(elapsed * 1000, 3),
            transaction_id=_text(result.getTransactionId()) if send.kind == "transaction" else None,
            transaction_plan=send.plan.get("transaction"),
            one_way=send.kind == "one_way",
            traced=send.kind != "one_way" and producer.is_traced,
            trace_topic=producer.tracing.destination,
        )

    def _call(
        self, producer: TracedClient, send: Send, messages: list[Any], key: str
    ) -> tuple[Any, int, float]:
        """Send; return the result (None: one-way), the start time, ms, and the duration, seconds."""
        begin, clock = now_ms(), time.perf_counter()
        result = None
        if send.kind == "one_way":
            producer.java.sendOneway(messages[0])
        elif send.kind == "transaction":
            result = producer.java.sendMessageInTransaction(messages[0], None)
        elif send.kind == "orderly":
            selector, argument = java_client.by_key_hash(key)
            result = producer.java.send(messages[0], selector, argument)
        elif send.kind == "async":
            result = java_client.send_async(producer, messages[0])
        elif send.kind == "batch":
            import jpype

            result = producer.java.send(jpype.java.util.ArrayList(messages))
        else:
            result = producer.java.send(messages[0])
        return result, begin, time.perf_counter() - clock

    def _decider(self, group: str, client_id: str, trace_topic: str) -> Any:
        def decide(message: Any, check: bool) -> str:
            if check and self._closing.is_set():
                # The clients are closing: a decision now may or may not be traced.
                threading.Event().wait()
            msg_id = java_client.unique_id(message)
            done = int(_text(message.getProperty("TRANSACTION_CHECK_TIMES")) or 0) if check else 0
            state = scenarios.attempt_outcome(_text(message.getProperty("plan.transaction")), done)
            self._record.write(
                "transaction",
                producer_group=group,
                client_id=client_id,
                topic=_text(message.getTopic()),
                msg_id=msg_id,
                transaction_id=_text(message.getTransactionId()),
                state=state,
                check=check,
                at_ms=now_ms(),
                traced=self.release.traces_transactions,
                trace_topic=trace_topic,
            )
            return state

        return decide

    def _handler(self, subscription: java_client.Subscription) -> Any:
        group = subscription.group

        def handle(consumer: TracedClient, messages: list[Any]) -> str:
            begin, call_id = now_ms(), uuid.uuid4().hex
            # One outcome for the whole call: the worst of the planned ones.
            plans = [
                scenarios.attempt_outcome(_text(m.getProperty(f"plan.{group}")), int(m.getReconsumeTimes()))
                for m in messages
            ]
            plan = next((p for p in plans if p != "success"), "success")
            if plan == "timeout":
                time.sleep(SLOW_SECONDS)
            end = now_ms()
            regions = [_text(m.getProperty("MSG_REGION")) for m in messages]
            for m, region in zip(messages, regions, strict=True):
                self._record.write(
                    "consume",
                    consumer_group=group,
                    client_id=consumer.client_id,
                    broadcast=subscription.broadcast,
                    orderly=subscription.orderly,
                    topic=str(m.getTopic()),
                    msg_id=str(m.getMsgId()),
                    offset_msg_id=_text(m.getOffsetMsgId()),
                    keys=_text(m.getKeys()),
                    tags=_text(m.getTags()),
                    broker=_text(m.getBrokerName()) if hasattr(m, "getBrokerName") else None,
                    queue_id=int(m.getQueueId()),
                    queue_offset=int(m.getQueueOffset()),
                    reconsume_times=int(m.getReconsumeTimes()),
                    outcome=plan,
                    begin_ms=begin,
                    end_ms=end,
                    call_id=call_id,
                    call_size=len(messages),
                    region=region,
                    born_host=str(m.getBornHostString()),
                    traced=regions[-1] is not None or not self.release.needs_region,
                    trace_topic=consumer.tracing.destination,
                )
            return "success" if plan == "timeout" else plan

        return handle


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def main() -> None:
    """Execute commands until the input ends."""
    parser = argparse.ArgumentParser(prog="sandbox.app", description=__doc__)
    parser.add_argument("name", choices=[a.name for a in scenarios.APPS])
    parser.add_argument("--namesrv", required=True)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--run", type=Path, required=True, help="the run's record folder")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--release", choices=releases.BY_VERSION, default=releases.NEWEST.version)
    arguments = parser.parse_args()

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of the Java client must not look like an answer
    release = releases.BY_VERSION[arguments.release]
    java_client.start_jvm(arguments.run.parent / "client", release)
    application = Application(
        arguments.name, arguments.namesrv, arguments.messages, arguments.full, arguments.run, release
    )
    commands: dict[str, Callable[[], Any]] = {
        "prepare": application.prepare,
        "connect": application.connect,
        "send": application.send,
        "send-late": application.send_late,
        "stop": application.stop,
    }
    for line in sys.stdin:
        command = line.strip()
        try:
            answer = {"result": commands[command]()}
        except BaseException as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)
        if command == "stop":
            break
    os._exit(0)  # everything is closed and written; the threads of the JVM would keep the process alive


if __name__ == "__main__":
    main()
