"""Topics, offsets and stored trace messages, by the official admin tool and pull consumer.

`trace_offsets` and `trace_messages` may be called from any program: each runs `python -m
sandbox.admin` in a process of its own, since a JVM can be neither unloaded nor forked.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy import child_process
from sandbox.record import Offsets, offsets_from_json
from spark_jobs.settings import PROJECT

PULL_BATCH = 32
TIMEOUT_SECONDS = 180.0


def trace_offsets(namesrv: str, topics: Sequence[str]) -> Offsets:
    """The broker's own offsets by the admin tool: `{topic: {broker: {queue: [min, max]}}}`.

    A topic that does not exist, or has no queue yet, is an empty entry.

    Raises:
        RuntimeError: the admin tool failed; the message ends with its output.
    """
    return offsets_from_json(json.loads(_run("offsets", namesrv, topics)))


def trace_messages(
    namesrv: str, topics: Sequence[str], start: Offsets | None = None
) -> tuple[Offsets, list[dict[str, Any]]]:
    """The offsets now, and the stored messages up to them by the official pull consumer, bodies inflated.

    A message is `{topic, broker, queue_id, queue_offset, store_time, born_host, keys, body}`. With
    `start`, reading starts at the max offsets in it (an earlier result of `trace_offsets`).

    Raises:
        RuntimeError: it failed; the message ends with the program's output.
    """
    found, *messages = map(json.loads, _run("messages", namesrv, topics, start).splitlines())
    return offsets_from_json(found), messages


def _run(what: str, namesrv: str, topics: Sequence[str], start: Offsets | None = None) -> str:
    command = [sys.executable, "-m", "sandbox.admin", what, "--namesrv", namesrv, *topics]
    with tempfile.TemporaryDirectory(prefix="rocketmq-admin-") as home:
        command += ["--home", home, "--start", json.dumps(start or {})]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        process = child_process.spawn(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
        except BaseException:
            child_process.end(process, 1.0)
            raise
    if process.returncode:
        raise RuntimeError(f"the admin tool failed on {namesrv} for {', '.join(topics)}:\n{errors[-3000:]}")
    return output


@contextmanager
def connected(namesrv: str) -> Iterator[Any]:
    """A started `DefaultMQAdminExt`; needs the JVM."""
    from sandbox.java_client import java_class

    tool = java_class("tools.admin.DefaultMQAdminExt")(10_000)
    tool.setNamesrvAddr(namesrv)
    tool.setInstanceName(f"admin#{os.getpid()}")
    tool.start()
    try:
        yield tool
    finally:
        tool.shutdown()


def create_topic(tool: Any, topic: str, queues: int) -> None:
    """Create the topic on every master broker of the cluster."""
    from sandbox.java_client import java_class

    for broker in tool.examineBrokerClusterInfo().getBrokerAddrTable().values():
        address = broker.selectBrokerAddr()
        config = java_class("common.TopicConfig")(topic, queues, queues, 6)
        tool.createAndUpdateTopicConfig(address, config)


def offsets(tool: Any, topics: Sequence[str]) -> Offsets:
    """As `trace_offsets`, in this process."""
    import jpype

    found: Offsets = {}
    for topic in topics:
        brokers: dict[str, dict[int, list[int]]] = {}
        try:
            table = tool.examineTopicStats(topic).getOffsetTable()
        except jpype.JException as error:
            if "Not found the topic stats info" not in str(error) and "No topic route" not in str(error):
                raise
        else:
            for queue in table.keySet():
                ends = table.get(queue)
                queues = brokers.setdefault(str(queue.getBrokerName()), {})
                queues[int(queue.getQueueId())] = [int(ends.getMinOffset()), int(ends.getMaxOffset())]
        found[topic] = brokers
    return found


def _messages(namesrv: str, ends: Offsets, start: Offsets) -> Iterator[dict[str, Any]]:
    from sandbox.java_client import java_class

    puller = java_class("client.consumer.DefaultMQPullConsumer")("trace-reader")
    puller.setNamesrvAddr(namesrv)
    puller.setInstanceName(f"trace-reader#{os.getpid()}")
    puller.start()
    message_queue = java_class("common.message.MessageQueue")
    try:
        for topic, brokers in ends.items():
            for broker, queues in brokers.items():
                for queue, (low, high) in queues.items():
                    offset = start.get(topic, {}).get(broker, {}).get(queue, [low, low])[1]
                    while offset < high:
                        pulled = puller.pull(message_queue(topic, broker, queue), "*", offset, PULL_BATCH)
                        for m in pulled.getMsgFoundList() or []:
                            yield {
                                "topic": topic,
                                "broker": broker,
                                "queue_id": queue,
                                "queue_offset": int(m.getQueueOffset()),
                                "store_time": int(m.getStoreTimestamp()),
                                "born_host": str(m.getBornHost()).lstrip("/"),
                                "keys": str(m.getKeys()),
                                "body": bytes(m.getBody()).decode(),
                            }
                        if pulled.getNextBeginOffset() <= offset:
                            raise RuntimeError(
                                f"{topic} {broker} {queue} does not advance from {offset}: {pulled}"
                            )
                        offset = int(pulled.getNextBeginOffset())
    finally:
        puller.shutdown()


def main() -> None:
    """Print the offsets as one JSON line, then, for `messages`, each message as one line."""
    from sandbox import java_client

    parser = argparse.ArgumentParser(prog="sandbox.admin", description="what a cluster's topics hold")
    parser.add_argument("what", choices=["offsets", "messages"])
    parser.add_argument("topics", nargs="+")
    parser.add_argument("--namesrv", required=True, help="host:port")
    parser.add_argument("--home", type=Path, required=True, help="a folder for the client's own files")
    parser.add_argument("--start", type=json.loads, default={}, help="offsets to read from, as JSON")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the Java client is not part of the answer
    java_client.start_jvm(arguments.home)
    with connected(arguments.namesrv) as tool:
        found = offsets(tool, arguments.topics)
    print(json.dumps(found), file=answers)
    if arguments.what == "messages":
        for message in _messages(arguments.namesrv, found, offsets_from_json(arguments.start)):
            print(json.dumps(message), file=answers)
    answers.flush()
    os._exit(0)  # the threads of the JVM would keep the process alive


if __name__ == "__main__":
    try:
        main()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
