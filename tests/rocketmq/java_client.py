"""The official Java client as a process of its own: what it writes, ours must read, and what it reads, equally.

`python -m tests.rocketmq.java_client NAMESRV FOLDER` takes a JSON list of commands on stdin and prints one JSON
list of results behind the mark on stdout.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

MARK = "RESULTS "


def run(namesrv: str, folder: Path, commands: list[dict[str, Any]]) -> list[Any]:
    """Run the commands in a fresh JVM; raises AssertionError with its output if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.rocketmq.java_client", namesrv, str(folder)],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    assert lines, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(lines[-1].removeprefix(MARK))


class JavaClient:
    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv

    def produce(
        self,
        topic: str,
        broker: str = "broker-a",
        queues: int = 1,
        queue: int = 0,
        bodies: list[str] = (),  # type: ignore[assignment]
        compress: str | None = None,
        count: int = 0,
        size: int = 0,
    ) -> int:
        """Send `bodies` (base64) one by one, or `count` bodies of `size` bytes in batches; to one queue."""
        import jpype

        client = jpype.JPackage("org").apache.rocketmq.client.producer
        common = jpype.JPackage("org").apache.rocketmq.common
        producer = client.DefaultMQProducer("tests")
        producer.setNamesrvAddr(self.namesrv)
        producer.setInstanceName(f"{topic}-{compress}-{queue}")
        producer.setCompressMsgBodyOverHowmuch(1 if compress else 1 << 30)
        if compress:
            producer.setCompressType(common.compression.CompressionType.valueOf(compress))
        producer.setSendMsgTimeout(30_000)
        producer.start()
        try:
            producer.createTopic("TBW102", topic, queues, jpype.java.util.HashMap())
            target = common.message.MessageQueue(topic, broker, queue)
            for number, body in enumerate(bodies):
                message = common.message.Message(topic, "tag", f"key-{number}", base64.b64decode(body))
                message.putUserProperty("number", str(number))
                message.putUserProperty("text", "größer 漢字 🚀")
                producer.send(message, target)
            for first in range(0, count, 500):
                batch = jpype.java.util.ArrayList()
                for number in range(first, min(first + 500, count)):
                    batch.add(common.message.Message(topic, f"{number:010d}".encode().ljust(size, b".")))
                producer.send(batch, target)
        finally:
            producer.shutdown()
        return len(bodies) + count

    def pull(
        self, topic: str, broker: str = "broker-a", queue: int = 0, count: int = 32
    ) -> list[dict[str, Any]]:
        """The first messages of a queue, as the Java client decodes them."""
        import jpype

        org = jpype.JPackage("org").apache.rocketmq
        consumer = org.client.consumer.DefaultMQPullConsumer("tests_pull")
        consumer.setNamesrvAddr(self.namesrv)
        consumer.setInstanceName(f"{topic}-{queue}-pull")
        consumer.start()
        try:
            found = consumer.pull(org.common.message.MessageQueue(topic, broker, queue), "*", 0, count)
            return [
                {
                    "queue_offset": int(m.getQueueOffset()),
                    "physical_offset": int(m.getCommitLogOffset()),
                    "store_time": int(m.getStoreTimestamp()),
                    "born_time": int(m.getBornTimestamp()),
                    "born_host": str(m.getBornHost()).removeprefix("/"),
                    "store_host": str(m.getStoreHost()).removeprefix("/"),
                    "body_crc": int(m.getBodyCRC()),
                    "stored_size": int(m.getStoreSize()),
                    "queue_id": int(m.getQueueId()),
                    "flag": int(m.getFlag()),
                    "reconsume_times": int(m.getReconsumeTimes()),
                    "topic": str(m.getTopic()),
                    "properties": {
                        str(e.getKey()): str(e.getValue())
                        for e in m.getProperties().entrySet()
                        if str(e.getKey()) not in ("MIN_OFFSET", "MAX_OFFSET")  # the client adds these
                    },
                    "body": base64.b64encode(bytes(m.getBody())).decode(),
                }
                for m in found.getMsgFoundList() or []
            ]
        finally:
            consumer.shutdown()

    def grant(self, broker: str, admin: list[str], user: list[str], resources: list[str]) -> str:
        """Create a user who may Sub and Get the resources, on a broker with the ACL of 5.x."""
        import jpype

        org = jpype.JPackage("org").apache.rocketmq
        hook = org.acl.common.AclClientRPCHook(org.acl.common.SessionCredentials(*admin))
        tool = org.tools.admin.DefaultMQAdminExt(hook)
        tool.setNamesrvAddr(self.namesrv)
        tool.start()
        try:
            tool.createUser(broker, *user, "Normal")
            lists = [
                jpype.java.util.Arrays.asList(each) for each in (resources, ["Sub", "Get"], ["127.0.0.1"])
            ]
            tool.createAcl(broker, f"User:{user[0]}", *lists, "Allow")
        finally:
            tool.shutdown()
        return user[0]


def main() -> None:
    import jpype

    from spark_jobs import jars

    namesrv, folder = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    options = [
        f"-Duser.home={folder}",
        f"-Drocketmq.client.logRoot={folder}",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
    ]
    jpype.startJVM(*options, classpath=[str(jar) for jar in jars.jars(jars.ROCKETMQ)], convertStrings=False)
    client = JavaClient(namesrv)
    results = [getattr(client, command.pop("do"))(**command) for command in json.load(sys.stdin)]
    print(MARK + json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
