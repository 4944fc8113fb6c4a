"""The official Java client and admin tool in a process of their own (`tests/java_process.py`).

They write messages, and report what the broker holds, with which the tests compare what the jobs have read.
"""

from __future__ import annotations

import contextlib
import zlib
from typing import Any

from tests.faults.jobs.bodies import body, pieces
from tests.java_process import serve

BATCH = 400


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


if __name__ == "__main__":
    serve(Commands)
