"""Send messages without a JVM: one request each."""

from __future__ import annotations

import time

from spark_jobs.rocketmq.connection import Connection

SEND_MESSAGE = 10
GET_MAX_OFFSET = 30


def send(broker: str, topic: str, count: int = 1, queue_id: int = 0, queues: int = 1) -> None:
    """Send messages to a queue of a topic, which the broker creates with so many queues, and wait until consumers may read them.

    A broker answers when a message is in its commit log; it adds the message to the consume queue later.

    Args:
        broker: its `host:port`.
    """
    with Connection(broker) as connection:
        for number in range(count):
            fields = {
                "producerGroup": "tests",
                "topic": topic,
                "defaultTopic": "TBW102",
                "defaultTopicQueueNums": str(queues),
                "queueId": str(queue_id),
                "sysFlag": "0",
                "bornTimestamp": str(time.time_ns() // 1_000_000),
                "flag": "0",
                "properties": "",
                "reconsumeTimes": "0",
                "unitMode": "false",
                "batch": "false",
            }
            answer = connection.call(SEND_MESSAGE, fields, f"message {number}".encode())
            assert answer.code == 0, answer.remark
        last, end = int(answer.fields["queueOffset"]), time.monotonic() + 60
        queue = {"topic": topic, "queueId": str(queue_id)}
        while int(connection.call(GET_MAX_OFFSET, queue).fields["offset"]) <= last:
            assert time.monotonic() < end, (queue, last)
            time.sleep(0.01)
