"""The official Java clients and admin tool in a process of their own (`tests/java_process.py`).

Consumers that are left running, and what the broker reports, with which the tests compare the recorded facts.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

from sandbox import registration
from tests.broker_facts.diary import DiaryCommands
from tests.java_process import serve

SECONDS = 60


class Commands(DiaryCommands):
    def __init__(self, namesrv: str, tool: Any):
        super().__init__()
        self._namesrv, self._tool = namesrv, tool
        self._consumers: dict[str, tuple[Any, Counter[tuple[str, int]]]] = {}
        self._producer: Any = None
        self._deciders: dict[str, Any] = {}
        self._traced: dict[str, Any] = {}

    def make_topic(self, topic: str, address: str, queues: int) -> None:
        from sandbox.java_client import java_class

        config = java_class("common.TopicConfig")(topic, queues, queues, 6)
        self._tool.createAndUpdateTopicConfig(address, config)
        until = time.monotonic() + SECONDS
        while not registration.serves(self._namesrv, topic, address):  # a client asks again only after 30 s
            assert time.monotonic() < until, f"{topic} is not in the route"
            time.sleep(0.05)

    def send(self, topic: str, broker: str, tag: str, queues: int, count: int) -> int:
        """Send `count` messages, with the property `number`, to the queues in turn."""
        from sandbox.java_client import java_class, message

        if self._producer is None:
            self._producer = java_class("client.producer.DefaultMQProducer")("facts-producer")
            self._producer.setNamesrvAddr(self._namesrv)
            self._producer.setSendMsgTimeout(30_000)
            self._producer.start()
        target = java_class("common.message.MessageQueue")
        for number in range(count):
            sent = message(topic, "body", tags=tag, properties={"number": str(number)})
            self._producer.send(sent, target(topic, broker, number % queues))
        return count

    def send_one(
        self,
        topic: str,
        tag: str,
        body: str = "body",
        level: int = 0,
        timer_ms: int = 0,
        decision: str | None = None,
        batch: int = 0,
    ) -> dict[str, Any]:
        """Send one message, maybe delayed or in a transaction, or as one of a batch; the client's and the broker's id, and when.

        Args:
            topic: the topic, of one queue.
            tag: its tag.
            body: its body.
            level: delay level; 0 for none.
            timer_ms: delay by the timer; 0 for none.
            decision: commit, rollback or unknown for a transaction.
            batch: send so many copies in a batch; the ids are those of the last one.
        """
        import jpype

        from sandbox import java_client
        from sandbox.java_client import java_class, message

        if decision and decision not in self._deciders:
            java = java_class("client.producer.TransactionMQProducer")(f"deciding-{decision}")
            java.setNamesrvAddr(self._namesrv)
            java.setInstanceName(f"deciding-{decision}")
            java.setTransactionListener(java_client._transaction_listener(lambda *_: decision))
            java.start()
            self._deciders[decision] = java
        sent_at = time.time()
        sent = [message(topic, body, tags=tag, delay_level=level) for _ in range(batch or 1)]
        if timer_ms:
            sent[0].setDelayTimeMs(timer_ms)
        if decision:
            result = self._deciders[decision].sendMessageInTransaction(sent[0], None)
        else:
            if self._producer is None:
                self.send(topic, "", tag, 1, 0)
            result = self._producer.send(jpype.java.util.ArrayList(sent) if batch else sent[0])
        offset_ids = str(result.getOffsetMsgId() or "")
        return {
            "msg_id": java_client.unique_id(sent[-1]),
            "offset_msg_id": offset_ids.rpartition(",")[2] or None,
            "sent_at": sent_at,
        }

    def set_offset(self, group: str, topic: str, broker: str, offset: int) -> None:
        """Set the committed offset of queue 0 of a group that is offline: it jumps over messages."""
        from sandbox.java_client import java_class

        queue = java_class("common.message.MessageQueue")(topic, broker, 0)
        brokers = self._tool.examineBrokerClusterInfo().getBrokerAddrTable()
        self._tool.updateConsumeOffset(brokers.get(broker).selectBrokerAddr(), group, queue, offset)

    def expire(self, address: str) -> None:
        """Let the broker delete all files of its commit log but the last one."""
        import jpype

        properties = jpype.java.util.Properties()
        properties.setProperty("fileReservedTime", "0")
        self._tool.updateBrokerConfig(address, properties)
        self._tool.deleteExpiredCommitLogByAddr(address)

    def consume(
        self,
        group: str,
        tags: dict[str, str],
        sql: dict[str, str] | None = None,
        broadcast: bool = False,
        fails: bool = False,
        most_retries: int = 16,
        retry_level: int = 0,
    ) -> None:
        """Start a push consumer: topic to tag expression, and topic to SQL condition.

        One that `fails` sends every message back, at most so often; its next attempt is delayed by `retry_level`.
        """
        import jpype

        from sandbox.java_client import java_class

        consumer = java_class("client.consumer.DefaultMQPushConsumer")(group)
        consumer.setNamesrvAddr(self._namesrv)
        consumer.setInstanceName(f"client-{time.monotonic_ns()}")
        consumer.setPersistConsumerOffsetInterval(500)
        consumer.setMaxReconsumeTimes(most_retries)
        consumer.setConsumeFromWhere(java_class("common.consumer.ConsumeFromWhere").CONSUME_FROM_FIRST_OFFSET)
        if broadcast:
            consumer.setMessageModel(java_class("remoting.protocol.heartbeat.MessageModel").BROADCASTING)
        for topic, expression in tags.items():
            consumer.subscribe(topic, expression)
        for topic, condition in (sql or {}).items():
            consumer.subscribe(topic, java_class("client.consumer.MessageSelector").bySql(condition))
        seen: Counter[tuple[str, int]] = Counter()
        lock = threading.Lock()
        status = java_class("client.consumer.listener.ConsumeConcurrentlyStatus")

        @jpype.JImplements("org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently")
        class Listener:
            @jpype.JOverride
            def consumeMessage(self, messages: Any, context: Any) -> Any:  # noqa: N802
                with lock:
                    for each in messages:
                        seen[str(each.getTopic()), int(each.getQueueId())] += 1
                context.setDelayLevelWhenNextConsume(retry_level)
                return status.RECONSUME_LATER if fails else status.CONSUME_SUCCESS

        consumer.setMessageListener(Listener())
        consumer.start()
        self._consumers[group] = consumer, seen

    def send_traced(self, group: str, topic: str, count: int) -> None:
        """Send messages with a producer whose trace is on, and close it when the trace is written."""
        from sandbox import java_client

        client = java_client.producer(self._namesrv, group, group, java_client.Tracing())
        for _ in range(count):
            client.java.send(java_client.message(topic, "body"))
        java_client.shut_down([client])

    def consume_traced(self, group: str, topic: str) -> None:
        """Start a push consumer of all messages of a topic, whose trace is on."""
        from sandbox import java_client

        seen: Counter[tuple[str, int]] = Counter()
        lock = threading.Lock()

        def handle(_: Any, messages: list[Any]) -> str:
            with lock:
                for each in messages:
                    seen[str(each.getTopic()), int(each.getQueueId())] += 1
            return "success"

        subscription = java_client.Subscription(group, {topic: "*"})
        tracing = java_client.Tracing()
        client = java_client.consumer(self._namesrv, subscription, f"traced-{group}", tracing, handle)
        self._consumers[group], self._traced[group] = (client.java, seen), client

    def stop_traced(self, group: str) -> None:
        """Shut the consumer down when its trace is written."""
        from sandbox import java_client

        self._consumers.pop(group)
        java_client.shut_down([self._traced.pop(group)])

    def wait_for(self, group: str, count: int) -> dict[str, int]:
        """Until the group has consumed so many messages; how many of each `topic/queue`."""
        until = time.monotonic() + SECONDS
        seen = self._consumers[group][1]
        while seen.total() < count:
            assert time.monotonic() < until, f"{group} has consumed {seen.total()} of {count}"
            time.sleep(0.05)
        return {f"{topic}/{queue}": each for (topic, queue), each in sorted(seen.items())}

    def wait_until_committed(self, group: str, queues: int) -> None:
        """Until the group has committed the ends of so many queues: a running consumer does so after 10 s for the first time."""
        until = time.monotonic() + SECONDS
        while True:
            ends = [each for name, each in self.progress(group).items() if "%RETRY%" not in name]
            if len(ends) == queues and all(broker == consumer for broker, consumer in ends):
                return
            assert time.monotonic() < until, f"{group} has committed {ends}"
            time.sleep(0.2)

    def suspend(self, group: str) -> None:
        """The consumer stays connected, and reads nothing more."""
        self._consumers[group][0].suspend()

    def stop(self, group: str) -> None:
        """Shut the consumer down: it commits its offsets and signs off."""
        self._consumers.pop(group)[0].shutdown()

    def progress(self, group: str) -> dict[str, list[int]]:
        """By the admin tool: `topic/queue` to broker offset and consumer offset."""
        table = self._tool.examineConsumeStats(group).getOffsetTable()
        return {
            f"{queue.getTopic()}/{queue.getQueueId()}": [
                int(table.get(queue).getBrokerOffset()),
                int(table.get(queue).getConsumerOffset()),
            ]
            for queue in table.keySet()
        }

    def names(self, address: str) -> list[list[str]]:
        """All topics and all groups that a broker knows, by the admin tool."""
        topics = self._tool.getAllTopicConfig(address, 10_000).getTopicConfigTable().keySet()
        groups = self._tool.getAllSubscriptionGroup(address, 10_000).getSubscriptionGroupTable().keySet()
        return [sorted(map(str, topics)), sorted(map(str, groups))]


if __name__ == "__main__":
    serve(Commands)
