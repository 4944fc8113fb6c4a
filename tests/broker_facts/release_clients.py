"""Java clients of one release, with a diary and credentials, in a process of their own (`tests/java_process.py`)."""

from __future__ import annotations

from tests.broker_facts.diary import DiaryCommands
from tests.java_process import serve_release


class Commands(DiaryCommands):
    def __init__(self, namesrv: str):
        super().__init__()
        self._namesrv = namesrv

    def make_topics(self, topics: list[str], address: str, access_key: str, secret_key: str) -> None:
        """Make topics of one queue by the admin tool, which only the newest release has here."""
        from sandbox.java_client import java_class

        credentials = java_class("acl.common.SessionCredentials")(access_key, secret_key)
        hook = java_class("acl.common.AclClientRPCHook")(credentials)
        tool = java_class("tools.admin.DefaultMQAdminExt")(hook, 30_000)
        tool.setNamesrvAddr(self._namesrv)
        tool.start()
        try:
            for topic in topics:
                config = java_class("common.TopicConfig")(topic, 1, 1, 6)
                tool.createAndUpdateTopicConfig(address, config)
        finally:
            tool.shutdown()

    def set_offset(self, group: str, topic: str, broker: str, offset: int) -> None:
        """Commit an offset of queue 0 for a group that is offline: it jumps over messages."""
        from sandbox.java_client import java_class

        consumer = self._client("client.consumer.DefaultMQPullConsumer", group, traced=False).java
        consumer.start()
        try:
            queue = java_class("common.message.MessageQueue")(topic, broker, 0)
            store = consumer.getDefaultMQPullConsumerImpl().getOffsetStore()
            store.updateConsumeOffsetToBroker(queue, offset, False)
        finally:
            consumer.shutdown()


if __name__ == "__main__":
    serve_release(Commands)
