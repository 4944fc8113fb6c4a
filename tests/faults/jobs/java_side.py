"""The official Java client and admin tool in a process of their own, which lives as long as the tests need it.

It writes messages, and says what the broker holds: the judge of what the jobs have read.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy import child_process
from tests.faults.jobs.bodies import body, pieces

BATCH = 400


class JavaSide:
    """Calls a method of `Commands` in the other process; raises AssertionError with what went wrong there."""

    def __init__(self, process: subprocess.Popen[str], log: Path):
        self._process, self._log = process, log

    def __call__(self, method: str, **arguments: Any) -> Any:
        self._process.stdin.write(json.dumps([method, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the Java client ended: {self._log.read_text()[-3000:]}"
        result, error = json.loads(answer)
        assert error is None, f"{method}{arguments}: {error}"
        return result


@contextmanager
def java_side(namesrv: str, folder: Path) -> Iterator[JavaSide]:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "java.log"
    with log.open("w") as errors:
        process = child_process.spawn(
            [sys.executable, "-m", "tests.faults.jobs.java_side", namesrv, str(folder)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield JavaSide(process, log)
    finally:
        child_process.end(process, 1.0)


class Commands:
    def __init__(self, namesrv: str, tool: Any):
        from sandbox.java_client import java_class

        self._namesrv, self._tool, self._class = namesrv, tool, java_class
        self._puller: Any = None
        self._producer: Any = None

    def make_topic(self, topic: str, address: str, queues: int) -> None:
        config = self._class("common.TopicConfig")(topic, queues, queues, 6)
        self._tool.createAndUpdateTopicConfig(address, config)
        with contextlib.suppress(Exception):  # else it would take up to 30 s to learn of a new broker
            self._producer.fetchPublishMessageQueues(topic)

    def delete_topic(self, topic: str, addresses: list[str]) -> None:
        """On the brokers and on the nameserver, as `mqadmin deleteTopic` does."""
        import jpype

        self._tool.deleteTopicInBroker(jpype.java.util.HashSet(addresses), topic)
        self._tool.deleteTopicInNameServer(jpype.java.util.HashSet([self._namesrv]), topic)

    def produce(self, topic: str, broker: str, queue: int, first: int, count: int) -> int:
        """Send the bodies numbered from `first`: large ones alone, compressed; the others in batches."""
        import jpype

        if self._producer is None:
            self._producer = self._class("client.producer.DefaultMQProducer")("faults")
            self._producer.setNamesrvAddr(self._namesrv)
            self._producer.setSendMsgTimeout(30_000)
            self._producer.start()
        make, target = self._class("common.message.Message"), self._class("common.message.MessageQueue")
        where = target(topic, broker, queue)
        # It asks for the address of a broker only once; another module's broker may have had the same name.
        factory = self._producer.getDefaultMQProducerImpl().getMqClientFactory()
        factory.updateTopicRouteInfoFromNameServer(topic)
        small = []
        for number in range(first, first + count):
            content = body(number)
            message = make(topic, jpype.JArray(jpype.JByte)(content))
            if len(content) > 4096:
                self._producer.send(message, where)
            else:
                small.append(message)
        for begin in range(0, len(small), BATCH):
            self._producer.send(jpype.java.util.ArrayList(small[begin : begin + BATCH]), where)
        return count

    def bounds(self, topic: str) -> list[list[Any]]:
        """`[broker, queue, first offset, offset after the last]` for each queue, by the admin tool."""
        table = self._tool.examineTopicStats(topic).getOffsetTable()
        return [
            [str(q.getBrokerName()), int(q.getQueueId()), int(ends.getMinOffset()), int(ends.getMaxOffset())]
            for q in table.keySet()
            for ends in [table.get(q)]
        ]

    def read(self, topic: str, broker: str, queue: int, start: int, end: int) -> list[list[int]]:
        """`[offset, CRC as stored, CRC of the inflated body, records]` of [start, end), by the pull consumer."""
        if self._puller is None:
            self._puller = self._class("client.consumer.DefaultMQPullConsumer")("faults-judge")
            self._puller.setNamesrvAddr(self._namesrv)
            self._puller.start()
        # As in `produce`: another module's broker may have had the same name.
        rebalance = self._puller.getDefaultMQPullConsumerImpl().getRebalanceImpl()
        rebalance.getmQClientFactory().updateTopicRouteInfoFromNameServer(topic)
        where = self._class("common.message.MessageQueue")(topic, broker, queue)
        found: list[list[int]] = []
        while start < end:
            pulled = self._puller.pull(where, "*", start, 32)
            for m in pulled.getMsgFoundList() or []:
                content = bytes(m.getBody())
                found.append(
                    [int(m.getQueueOffset()), int(m.getBodyCRC()), zlib.crc32(content), pieces(content)]
                )
            assert int(pulled.getNextBeginOffset()) > start, f"stands still at {start}: {pulled}"
            start = int(pulled.getNextBeginOffset())
        return [row for row in found if row[0] < end]

    def expire(self, address: str) -> None:
        """Let the broker delete every commit-log file but the last, and what points to them."""
        import jpype

        properties = jpype.java.util.Properties()
        properties.setProperty("fileReservedTime", "0")
        self._tool.updateBrokerConfig(address, properties)
        self._tool.deleteExpiredCommitLogByAddr(address)
        self._tool.cleanExpiredConsumerQueueByAddr(address)


def main() -> None:
    from sandbox import admin, java_client

    namesrv, folder = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the Java client prints is not part of an answer
    java_client.start_jvm(Path(folder))
    with admin.connected(namesrv) as tool:
        commands = Commands(namesrv, tool)
        for line in sys.stdin:
            method, arguments = json.loads(line)
            try:
                answer = [getattr(commands, method)(**arguments), None]
            except Exception as error:
                answer = [None, f"{type(error).__name__}: {error}"]
            print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # the JVM's own threads would keep the process


if __name__ == "__main__":
    main()
