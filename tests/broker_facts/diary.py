"""Java clients with a diary: what they sent and what their listeners were given. It judges what the marts say of the traces."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

SECONDS = 60
# A broker holds a pull for 15 s and looks every 5 s which are over. The answer creates the group again, though the consumer that
# sent the pull has stopped.
HELD_SECONDS = 25
RECALL_TRACE = "com.rocketmq.recall.default.trace.enable"


class DiaryCommands:
    """Commands of `tests/broker_facts/clients.py`; each client's trace is on or off, as the test says."""

    _namesrv: str
    _tool: Any

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._consumed: list[tuple[str, str, bool]] = []
        self._running: dict[str, list[Any]] = {}
        self._senders: dict[bool, Any] = {}
        self._numbers = itertools.count()
        self._trace_topic = ""
        self._hook: Any = None
        self._stopped_at: dict[str, float] = {}

    def trace_to(self, topic: str) -> None:
        """The trace topic of all clients that start from now on."""
        self._trace_topic = topic

    def log_in(self, access_key: str, secret_key: str) -> None:
        """The credentials of all clients that start from now on."""
        from sandbox.java_client import java_class

        credentials = java_class("acl.common.SessionCredentials")(access_key, secret_key)
        self._hook = java_class("acl.common.AclClientRPCHook")(credentials)

    def start_group(
        self,
        group: str,
        topic: str,
        traced: bool = True,
        tags: str = "*",
        sql: str | None = None,
        clients: int = 1,
        fails: bool = False,
        most_retries: int = 16,
        retry_level: int = 0,
        drops: str | None = None,
    ) -> None:
        """Start consumers of a group, beside those that run; several broadcast.

        Args:
            group: consumer group.
            topic: topic that it subscribes to.
            traced: whether their trace is on.
            tags: tag expression.
            sql: SQL92 condition in its place.
            clients: how many.
            fails: the listener sends every message back, except those of the tag `warm-up`.
            most_retries: how often a message is retried.
            retry_level: delay level of a retry; 0 for that of the broker.
            drops: a filter hook of the program drops messages with this tag before the listener: the offset passes them.
        """
        self._running.setdefault(group, []).extend(
            self._consumer(
                group, topic, traced, tags, sql, clients > 1, fails, most_retries, retry_level, drops
            )
            for _ in range(clients)
        )

    def _consumer(
        self,
        group: str,
        topic: str,
        traced: bool,
        tags: str,
        sql: str | None,
        broadcast: bool,
        fails: bool,
        most_retries: int,
        retry_level: int,
        drops: str | None,
    ) -> Any:
        import jpype

        from sandbox import java_client
        from sandbox.java_client import java_class

        client = self._client("client.consumer.DefaultMQPushConsumer", group, traced)
        java = client.java
        java.setPersistConsumerOffsetInterval(500)
        java.setConsumeThreadMin(1)
        java.setConsumeThreadMax(1)
        java.setMaxReconsumeTimes(most_retries)
        java.setConsumeFromWhere(java_class("common.consumer.ConsumeFromWhere").CONSUME_FROM_FIRST_OFFSET)
        if broadcast:
            model = java_class(f"{java_client.release().protocol}.heartbeat.MessageModel")
            java.setMessageModel(model.BROADCASTING)
        if sql:
            java.subscribe(topic, java_class("client.consumer.MessageSelector").bySql(sql))
        else:
            java.subscribe(topic, tags)
        status = java_class("client.consumer.listener.ConsumeConcurrentlyStatus")

        @jpype.JImplements("org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently")
        class Listener:
            @jpype.JOverride
            def consumeMessage(_, messages: Any, context: Any) -> Any:  # noqa: N802, N805
                (message,) = messages
                succeeds = not fails or str(message.getTags()) == "warm-up"
                with self._lock:
                    self._consumed.append((group, str(message.getMsgId()), succeeds))
                context.setDelayLevelWhenNextConsume(retry_level)
                return status.CONSUME_SUCCESS if succeeds else status.RECONSUME_LATER

        java.setMessageListener(Listener())
        if drops is not None:
            java_class("client.hook.FilterMessageContext")  # wrapped before there are threads

            @jpype.JImplements("org.apache.rocketmq.client.hook.FilterMessageHook")
            class Hook:
                @jpype.JOverride
                def hookName(_) -> str:  # noqa: N802, N805
                    return "drops"

                @jpype.JOverride
                def filterMessage(_, context: Any) -> None:  # noqa: N802, N805
                    found = context.getMsgList()
                    kept = [each for each in found if str(each.getTags()) != drops]
                    found.clear()
                    for each in kept:
                        found.add(each)

            java.getDefaultMQPushConsumerImpl().registerFilterMessageHook(Hook())
        client.start()
        return client

    def _client(self, kind: str, group: str, traced: bool) -> Any:
        """A client of its own process number, as of a process of its own."""
        from sandbox import java_client

        java = self._java(kind, group, traced)
        tracing = java_client.Tracing(self._trace_topic)
        client = java_client.TracedClient(java, self._namesrv, f"diary-{next(self._numbers)}", tracing)
        if java_client.release().traces_by_setter:
            java.setEnableTrace(traced)
        return client

    def _java(self, kind: str, group: str, traced: bool) -> Any:
        """The Java object; the constructors of older releases switch the trace on."""
        from sandbox.java_client import java_class, release

        if release().traces_by_setter or kind.endswith("PullConsumer"):
            return java_class(kind)(*filter(None, (group, self._hook)))
        tracing = (traced, self._trace_topic)
        if kind.endswith("Producer"):
            return java_class(kind)(group, self._hook, *tracing)
        allocate = java_class("client.consumer.rebalance.AllocateMessageQueueAveragely")()
        return java_class(kind)(group, self._hook, allocate, *tracing)

    def _sender(self, traces_recalls: bool = False) -> Any:
        """The traced producer; its recalls are traced or not."""
        if traces_recalls not in self._senders:
            import jpype

            jpype.java.lang.System.setProperty(RECALL_TRACE, str(traces_recalls).lower())
            name = f"diary-sender-{traces_recalls}"
            client = self._client("client.producer.DefaultMQProducer", name, True)
            client.java.setSendMsgTimeout(30_000)
            client.start()
            self._senders[traces_recalls] = client
        return self._senders[traces_recalls]

    def write(
        self,
        topic: str,
        tag: str,
        number: int = 0,
        level: int = 0,
        timer_ms: int = 0,
        batch: int = 0,
        times: int = 1,
        queue: int | None = None,
        recall: str | None = None,
    ) -> list[str]:
        """Send one message, or a batch, with a producer whose trace is on; the message ids.

        Args:
            topic: its topic.
            tag: its tag.
            number: a property.
            level: delay level; 0 for none.
            timer_ms: delay by the timer; 0 for none.
            batch: send a batch of so many; 0 for a message alone.
            times: send the same object so often.
            queue: the queue of a message alone; None: that which the client chooses.
            recall: `traced` or `untraced`: recall it at once.
        """
        import jpype

        from sandbox import java_client

        sender = self._sender(recall == "traced")
        sent = [
            java_client.message(
                topic, "body", tags=tag, delay_level=level, properties={"number": str(number)}
            )
            for _ in range(batch or 1)
        ]
        if timer_ms:
            sent[0].setDelayTimeMs(timer_ms)
        queues = sender.java.fetchPublishMessageQueues(topic) if queue is not None else []
        chosen = [each for each in queues if each.getQueueId() == queue]
        for _ in range(times):
            result = sender.java.send(jpype.java.util.ArrayList(sent) if batch else sent[0], *chosen)
        if recall:
            sender.java.recallMessage(topic, result.getRecallHandle())
        return [java_client.unique_id(each) for each in sent]

    def wait_until_shared(self, group: str) -> None:
        """Until each of its consumers has one queue of the topic."""

        def queues(client: Any) -> int:
            table = client.java.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable()
            return sum(not str(queue.getTopic()).startswith("%RETRY%") for queue in table.keySet())

        until = time.monotonic() + SECONDS
        while {*map(queues, self._running[group])} != {1}:
            assert time.monotonic() < until, f"the consumers of {group} do not share its queues"
            time.sleep(0.05)

    def wait_until_consumed(self, pairs: list[list[Any]]) -> None:
        """Until the listeners of each group were given so many messages."""
        until = time.monotonic() + SECONDS
        for group, count in pairs:
            while (seen := sum(group == each for each, *_ in self.consumed())) < count:
                assert time.monotonic() < until, f"{group} was given {seen} of {count}"
                time.sleep(0.05)

    def consumed(self) -> list[tuple[str, str, bool]]:
        """Consumer group, message id and whether the listener returned success, of each call."""
        with self._lock:
            return list(self._consumed)

    def flush(self) -> None:
        """Until the broker has the trace of all clients."""
        from sandbox import java_client

        java_client.flush([*self._senders.values(), *itertools.chain(*self._running.values())])

    def stop_groups(self, groups: list[str]) -> None:
        """Their consumers commit their offsets and sign off, when their trace is written."""
        from sandbox import java_client

        java_client.shut_down([client for group in groups for client in self._running.pop(group)])
        self._stopped_at |= dict.fromkeys(groups, time.monotonic())

    def stop_newest(self, group: str) -> None:
        """As `stop_groups`, the consumer of the group that was started last."""
        from sandbox import java_client

        java_client.shut_down([self._running[group].pop()])

    def stop_all(self) -> None:
        from sandbox import java_client

        java_client.shut_down([*itertools.chain(*self._running.values()), *self._senders.values()])
        self._running, self._senders = {}, {}

    def delete_group(self, group: str, address: str) -> None:
        """As `mqadmin deleteSubGroup -r true`: a broker of 5.5.0 that keeps the offsets creates the group again at once."""
        time.sleep(max(0.0, self._stopped_at[group] + HELD_SECONDS - time.monotonic()))
        self._tool.deleteSubscriptionGroup(address, group, True)
