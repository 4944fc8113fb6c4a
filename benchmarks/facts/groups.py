"""Consumer groups on a real broker: topics, heartbeats with subscriptions, and committed offsets, by the remoting protocol."""

from __future__ import annotations

import json

from spark_jobs.rocketmq.connection import Connection

GROUPS, TOPICS, QUEUES = 200, 50, 16
TOPICS_OF_GROUP = 5
UPDATE_CONSUMER_OFFSET, UPDATE_AND_CREATE_TOPIC, HEART_BEAT = 15, 17, 34
_IN_FLIGHT = 64


class Groups:
    """Groups that have consumed every topic once, and subscribe to some. A broker forgets them 2 minutes after a heartbeat."""

    def __init__(self, address: str) -> None:
        """Create the topics, and by a heartbeat the groups."""
        self._connection = Connection(address, timeout=60)
        self._offset = 0
        for number in range(TOPICS):
            self._create(f"bench-{number:02}")
        self.heartbeat()

    def close(self) -> None:
        """Close the connection: the groups are offline."""
        self._connection.close()

    def _create(self, topic: str) -> None:
        fields = {"topic": topic, "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
        fields |= {
            "readQueueNums": str(QUEUES),
            "writeQueueNums": str(QUEUES),
            "topicSysFlag": "0",
            "order": "false",
        }
        self._call(UPDATE_AND_CREATE_TOPIC, fields)

    def _call(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        frame = self._connection.call(code, fields, body)
        assert frame.code == 0, (code, fields, frame.code, frame.remark)

    def heartbeat(self) -> None:
        """Say that all groups are online, and what they subscribe to."""
        data = [
            {
                "groupName": f"group-{number:03}",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "unitMode": False,
                "subscriptionDataSet": [
                    _subscription(f"bench-{(number + each) % TOPICS:02}", each)
                    for each in range(TOPICS_OF_GROUP)
                ],
            }
            for number in range(GROUPS)
        ]
        body = {
            "clientID": "127.0.0.1@bench",
            "producerDataSet": [{"groupName": "bench"}],
            "consumerDataSet": data,
        }
        self._call(HEART_BEAT, {}, json.dumps(body).encode())

    def move(self) -> None:
        """Commit the next offset of every group, topic and queue."""
        waiting = 0
        for group in range(GROUPS):
            for topic in range(TOPICS):
                for queue in range(QUEUES):
                    fields = {"consumerGroup": f"group-{group:03}", "topic": f"bench-{topic:02}"}
                    fields |= {"queueId": str(queue), "commitOffset": str(self._offset)}
                    self._connection.send(UPDATE_CONSUMER_OFFSET, fields)
                    waiting += 1
                    if waiting >= _IN_FLIGHT:
                        assert self._connection.receive().code == 0
                        waiting -= 1
        for _ in range(waiting):
            assert self._connection.receive().code == 0
        self._offset += 1


def _subscription(topic: str, number: int) -> dict[str, object]:
    tags = [f"tag-{each}" for each in range(number)]
    return {
        "topic": topic,
        "subString": " || ".join(tags) or "*",
        "tagsSet": tags,
        "codeSet": [],
        "subVersion": 1,
        "expressionType": "TAG",
    }
