"""The official Java client as a process of its own: what it writes, ours must read, and what it reads, equally.

`python -m tests.rocketmq.java_client NAMESRV FOLDER` takes a JSON list of commands on stdin and prints one JSON
list of results behind the mark on stdout.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.rocketmq import variety

MARK = "RESULTS "


def run(namesrv: str, folder: Path, commands: list[dict[str, Any]]) -> list[Any]:
    """Run the commands in a fresh JVM; raises AssertionError with its output if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.rocketmq.java_client", namesrv, str(folder)],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=600,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    assert lines, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(lines[-1].removeprefix(MARK))


def fields(m: Any) -> dict[str, Any]:
    """A MessageExt except its body, in the names of `spark_jobs.rocketmq.message.Message`."""
    return {
        "queue_offset": int(m.getQueueOffset()),
        "physical_offset": int(m.getCommitLogOffset()),
        "store_time": int(m.getStoreTimestamp()),
        "born_time": int(m.getBornTimestamp()),
        "born_host": str(m.getBornHost()).removeprefix("/"),
        "store_host": str(m.getStoreHost()).removeprefix("/"),
        "sys_flag": int(m.getSysFlag()),
        "body_crc": int(m.getBodyCRC()),
        "stored_size": int(m.getStoreSize()),
        "queue_id": int(m.getQueueId()),
        "flag": int(m.getFlag()),
        "reconsume_times": int(m.getReconsumeTimes()),
        "prepared_transaction_offset": int(m.getPreparedTransactionOffset()),
        "topic": str(m.getTopic()),
        "properties": {
            str(e.getKey()): str(e.getValue())
            for e in m.getProperties().entrySet()
            if str(e.getKey()) not in ("MIN_OFFSET", "MAX_OFFSET")  # the client adds these
        },
    }


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
        credentials: list[str] = (),  # type: ignore[assignment]
        attributes: dict[str, str] | None = None,
        threads: int = 1,
    ) -> int:
        """Send `bodies` (base64) one by one, or `count` bodies of `size` bytes in batches; to one queue.

        With several `threads`, bodies are sent in any order.

        With `credentials` (access key, secret key, maybe a security token) to a topic that is there already.
        """
        import jpype

        org = jpype.JPackage("org").apache.rocketmq
        client, common = org.client.producer, org.common
        if credentials:
            identity = org.acl.common.SessionCredentials(*credentials)
            producer = client.DefaultMQProducer("tests", org.acl.common.AclClientRPCHook(identity))
        else:
            producer = client.DefaultMQProducer("tests")
        producer.setNamesrvAddr(self.namesrv)
        producer.setInstanceName(f"{topic}-{compress}-{queue}")
        producer.setCompressMsgBodyOverHowmuch(1 if compress else 1 << 30)
        if compress:
            producer.setCompressType(common.compression.CompressionType.valueOf(compress))
        producer.setSendMsgTimeout(30_000)
        producer.start()
        try:
            if not credentials:
                producer.createTopic("TBW102", topic, queues, jpype.java.util.HashMap(attributes or {}))
            target = common.message.MessageQueue(topic, broker, queue)

            def send(number: int, body: str) -> None:
                message = common.message.Message(topic, "tag", f"key-{number}", base64.b64decode(body))
                message.putUserProperty("number", str(number))
                message.putUserProperty("text", "größer 漢字 🚀")
                producer.send(message, target)

            if bodies:
                send(0, bodies[0])  # alone: JPype wraps classes at their first use
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(send, range(1, len(bodies)), bodies[1:]))
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
                {**fields(m), "body": base64.b64encode(bytes(m.getBody())).decode()}
                for m in found.getMsgFoundList() or []
            ]
        finally:
            consumer.shutdown()

    def produce_variety(self, topic: str, count: int, seed: int) -> int:
        """Send `variety.messages(count, seed)` to queues of a new topic, and wait until the delayed ones are there."""
        import jpype

        org = jpype.JPackage("org").apache.rocketmq
        producers = {}
        for codec in variety.CODECS:
            producer = producers[codec] = org.client.producer.DefaultMQProducer(f"variety-{codec}")
            producer.setNamesrvAddr(self.namesrv)
            producer.setInstanceName(f"{topic}-{codec}")
            producer.setCompressMsgBodyOverHowmuch(1 << 30 if codec == "NONE" else 1)
            if codec != "NONE":
                producer.setCompressType(org.common.compression.CompressionType.valueOf(codec))
            producer.setSendMsgTimeout(30_000)
            producer.start()
        producers["NONE"].createTopic("TBW102", topic, variety.QUEUES, jpype.java.util.HashMap())
        target = [org.common.message.MessageQueue(topic, "broker-a", n) for n in range(variety.QUEUES)]
        batch = jpype.java.util.ArrayList()
        for sent in variety.messages(count, seed):
            message = org.common.message.Message(topic, sent.tag, sent.keys, sent.body)
            message.putUserProperty("number", str(sent.number))
            for name, value in sent.properties.items():
                message.putUserProperty(name, value)
            if sent.delayed:
                message.setDelayTimeLevel(1)
            if not sent.in_batch:
                producers[sent.codec].send(message, target[sent.queue])
                continue
            batch.add(message)
            if batch.size() == variety.BATCH:
                producers["NONE"].send(batch, target[sent.queue])
                batch.clear()
        give_up = time.monotonic() + 30
        while sum(producers["NONE"].maxOffset(each) for each in target) < count:
            assert time.monotonic() < give_up, "the delayed messages do not come"
            time.sleep(0.1)
        for producer in producers.values():
            producer.shutdown()
        return count

    def dump(self, topic: str, queues: int, file: str) -> int:
        """Every message of the topic into a file, by queue and offset, a JSON line each; the body as its digest."""
        import jpype

        org = jpype.JPackage("org").apache.rocketmq
        consumer = org.client.consumer.DefaultMQPullConsumer("tests_dump")
        consumer.setNamesrvAddr(self.namesrv)
        consumer.start()
        count = 0
        with open(file, "w") as lines:
            for number in range(queues):
                queue = org.common.message.MessageQueue(topic, "broker-a", number)
                offset, end = int(consumer.minOffset(queue)), int(consumer.maxOffset(queue))
                while offset < end:
                    found = consumer.pull(queue, "*", offset, 32)
                    for m in found.getMsgFoundList() or []:
                        digest = hashlib.sha256(bytes(m.getBody())).hexdigest()
                        lines.write(json.dumps({**fields(m), "body": digest}) + "\n")
                        count += 1
                    assert int(found.getNextBeginOffset()) > offset, str(found)
                    offset = int(found.getNextBeginOffset())
        consumer.shutdown()
        return count

    def grant(
        self,
        broker: str,
        admin: list[str],
        user: list[str],
        resources: list[str],
        addresses: Sequence[str] = ("127.0.0.1",),
    ) -> str:
        """Create a user who may Sub and Get the resources from the addresses, on a broker with the ACL of 5.x."""
        import jpype

        org = jpype.JPackage("org").apache.rocketmq
        hook = org.acl.common.AclClientRPCHook(org.acl.common.SessionCredentials(*admin))
        tool = org.tools.admin.DefaultMQAdminExt(hook)
        tool.setNamesrvAddr(self.namesrv)
        tool.start()
        try:
            tool.createUser(broker, *user, "Normal")
            lists = [
                jpype.java.util.Arrays.asList([*each]) for each in (resources, ["Sub", "Get"], addresses)
            ]
            tool.createAcl(broker, f"User:{user[0]}", *lists, "Allow")
        finally:
            tool.shutdown()
        return user[0]


def main() -> None:
    import jpype

    from sandbox.releases import NEWEST
    from spark_jobs.lake import jars

    namesrv, folder = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    options = [
        f"-Duser.home={folder}",
        f"-Drocketmq.client.logRoot={folder}",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
    ]
    jpype.startJVM(*options, classpath=[str(jar) for jar in jars.jars(NEWEST.ivy_file)], convertStrings=False)
    client = JavaClient(namesrv)
    results = [getattr(client, command.pop("do"))(**command) for command in json.load(sys.stdin)]
    print(MARK + json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
