"""A producer of rocketmq-client-python 2.0.0 as an application of the demo's shop, in a process of its own.

`python -m sandbox.python_app` takes the commands of `sandbox.app`. The library of the wheel rocketmq 0.4.4 writes no trace. So
this application writes the records itself, through the same producer, in the layout that later releases of librocketmq write: a
Pub of 14 fields. The result of a send names neither broker nor queue, so the field of the store host is empty.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
import uuid
from pathlib import Path
from typing import Any

from sandbox import scenarios
from sandbox.java_client import REGION, TRACE_TOPIC
from sandbox.record import RecordWriter
from sandbox.scenarios import Send

NAME = "python"
RELEASE = "rocketmq-client-python 2.0.0"
FIELD, RECORD = "\x01", "\x02"
RECORDS_A_MESSAGE = 20
STATUSES = {0: "SEND_OK", 1: "FLUSH_DISK_TIMEOUT", 2: "FLUSH_SLAVE_TIMEOUT", 3: "SLAVE_NOT_AVAILABLE"}


class Application:
    """One producer, which sends and traces what it sent."""

    def __init__(self, namesrv: str, messages: int, run: Path) -> None:
        from rocketmq.client import Producer  # type: ignore[import-not-found]

        self._sends = scenarios.python_sends(messages)
        self._record = RecordWriter(run, NAME, RELEASE)
        self._producer = Producer(scenarios.PYTHON_PRODUCER)
        self._producer.set_name_server_address(namesrv)
        self._traced: list[tuple[str, str]] = []  # message id and keys, and the record

    def connect(self) -> None:
        """Start the producer."""
        self._producer.start()

    def send(self) -> None:
        """Send all messages, one after the other, and their trace."""
        for send in self._sends:
            self._send_one(send)
            if len(self._traced) >= RECORDS_A_MESSAGE:
                self._flush()
        self._flush()

    def stop(self) -> None:
        """Close the producer."""
        self._producer.shutdown()
        self._record.close()

    def _send_one(self, send: Send) -> None:
        key = f"{send.topic}-{uuid.uuid4().hex[:12]}"
        body = json.dumps({"key": key, "copy": 0, "kind": send.kind, "text": "x" * 120})
        message = _message(send.topic, body, key)
        message.set_tags(send.tags)
        begin, clock = time.time_ns() // 1_000_000, time.perf_counter()
        result = self._producer.send_sync(message)
        cost_ms = (time.perf_counter() - clock) * 1000
        status = STATUSES[int(result.status)]
        self._record.write(
            "send",
            kind=send.kind,
            producer_group=send.producer,
            client_id=f"127.0.0.1@{os.getpid()}",
            topic=send.topic,
            msg_id=result.msg_id,
            msg_ids=[result.msg_id],
            offset_msg_id=None,
            keys=key,
            tags=send.tags,
            batch_size=1,
            body_length=len(body),
            delay_level=0,
            status=status,
            broker=None,
            queue_id=None,
            queue_offset=int(result.offset),
            sent_at_ms=begin,
            cost_ms=round(cost_ms, 3),
            transaction_id=None,
            transaction_plan=None,
            one_way=False,
            traced=True,
            trace_topic=TRACE_TOPIC,
        )
        fields = (
            *("Pub", begin, REGION, send.producer, send.topic, result.msg_id, send.tags, key, ""),
            *(len(body), int(cost_ms), 0, "", str(status == "SEND_OK").lower()),
        )
        self._traced.append((f"{result.msg_id} {key}", FIELD.join(map(str, fields)) + RECORD))

    def _flush(self) -> None:
        """Send the waiting records in one trace message."""
        if self._traced:
            keys, records = zip(*self._traced, strict=True)
            self._producer.send_sync(_message(TRACE_TOPIC, "".join(records), " ".join(keys)))
            self._traced.clear()


def _message(topic: str, body: str, keys: str) -> Any:
    from rocketmq.client import Message

    message = Message(topic)
    message.set_keys(keys)
    message.set_body(body)
    return message


def main() -> None:
    """Execute commands until the input ends."""
    parser = argparse.ArgumentParser(prog="sandbox.python_app", description=__doc__)
    parser.add_argument("--namesrv", required=True)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--run", type=Path, required=True, help="the run's record folder")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of the library must not look like an answer
    home = arguments.run.parent / "client"
    home.mkdir(parents=True, exist_ok=True)
    os.environ["HOME"] = str(home)  # the library writes its log below it
    application = Application(arguments.namesrv, arguments.messages, arguments.run)
    commands = {"connect": application.connect, "send": application.send, "stop": application.stop}
    for line in sys.stdin:
        command = line.strip()
        try:
            answer: dict[str, Any] = {"result": commands.get(command, lambda: None)()}
        except BaseException as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)
        if command == "stop":
            break
    os._exit(0)  # everything is closed; the threads of the library may still run


if __name__ == "__main__":
    main()
