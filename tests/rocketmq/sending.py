"""Send messages without a JVM: one request each."""

from __future__ import annotations

import time

from spark_jobs.rocketmq.connection import Connection

SEND_MESSAGE = 10


def send(broker: str, topic: str, count: int = 1, queue_id: int = 0, queues: int = 1) -> None:
    """Send messages to a queue of a topic, which the broker creates with so many queues.

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
