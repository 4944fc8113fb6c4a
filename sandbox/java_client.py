"""The official Java client in this process, through JPype, with message trace on.

Call `start_jvm` once, before anything else here. A process with a JVM cannot fork safely and cannot start a second JVM, so use
this in a process of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jpype

from sandbox.releases import NEWEST, Release
from spark_jobs.lake import jars

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
REGION = "DefaultRegion"
CLOUD_TRACE_TOPIC = f"rmq_sys_TRACE_DATA_{REGION}"

# The release in the running JVM.
_release = NEWEST

# The 5.5.0 dispatcher queues 2048 records per client, sends at most about 2000 per second, and drops the rest. Producers and
# listeners wait while this many are outstanding.
MAX_OUTSTANDING = 400
FLUSH_SECONDS = 20.0
ASYNC_SECONDS = 15.0
# The last trace messages are sent asynchronously, and closing the client drops those in flight. While the client connects to
# the broker, a message is in no executor and not among the requests.
CONNECT_SECONDS = 0.7


def start_jvm(home: Path, release: Release = NEWEST) -> None:
    """Start the JVM; the client's logs and stored offsets go below `home`, nothing to the real home."""
    global _release
    _release = release
    java = Path(jars.java()).resolve()
    library = java.parent.parent / "lib" / "server" / "libjvm.so"
    home = home.resolve()
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    jpype.startJVM(
        *([str(library)] if library.exists() else []),
        f"-Duser.home={home}",
        f"-Drocketmq.client.logRoot={home / 'logs' / str(os.getpid())}",
        f"-Drocketmq.client.localOffsetStoreDir={home / 'offsets'}",
        f"-Djava.io.tmpdir={home / 'tmp'}",
        "-Drocketmq.client.rebalance.waitInterval=2000",
        "-Djava.net.preferIPv4Stack=true",
        f"-XX:ErrorFile={home / 'logs' / 'hs_err_pid%p.log'}",
        # The netty of 4.5.2 is older than Java's modules.
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        classpath=[str(jar) for jar in release.jars()],
        convertStrings=True,
    )
    # JPype 1.7.1 wraps a class at its first use. Two threads that do so at the same time crash it (a segmentation fault in
    # `TypeFactoryNative.newWrapper`), and listeners run in many threads. So all classes are wrapped before there is one.
    for name in Path(__file__).with_name("java_classes.txt").read_text().split():
        with suppress(TypeError):  # this release has no such class
            jpype.JClass(name)


def java_class(name: str) -> Any:
    """A class of the RocketMQ client by its name below `org.apache.rocketmq`."""
    return jpype.JClass(f"org.apache.rocketmq.{name}")


def release() -> Release:
    """The release in the running JVM."""
    return _release


@dataclass(frozen=True)
class Tracing:
    """The destination of a client's trace: its `traceTopic` setting and its access channel."""

    topic: str | None = None
    cloud: bool = False

    @property
    def destination(self) -> str:
        """The topic that the records arrive in."""
        return CLOUD_TRACE_TOPIC if self.cloud else self.topic or TRACE_TOPIC


class TracedClient:
    """A producer or consumer, and the queue in which its trace records wait."""

    def __init__(self, java: Any, namesrv: str, instance: str, tracing: Tracing):
        self.java = java
        self.tracing = tracing
        self.instance = instance
        java.setNamesrvAddr(namesrv)
        java.setInstanceName(instance)  # equal names in one JVM would share a connection and collide
        java.setClientIP("127.0.0.1")
        if _release.traces_by_setter:
            java.setEnableTrace(True)
            if tracing.topic:
                java.setTraceTopic(tracing.topic)
        if tracing.cloud:
            java.setAccessChannel(java_class("client.AccessChannel").CLOUD)
        self._records: Any = None
        self._executors: list[Any] = []
        self._requests: Any = None

    @property
    def client_id(self) -> str:
        return f"127.0.0.1@{self.instance}"

    @property
    def is_traced(self) -> bool:
        """Whether the release can trace this client."""
        return self.java.getTraceDispatcher() is not None

    def start(self) -> None:
        """Connect; raises the Java client's own exception."""
        if _release.one_trace_producer and self.is_traced:
            # As in a process of its own.
            group = f"trace-{self.instance.replace('#', '-')}"
            _private(self.java.getTraceDispatcher(), "traceProducer").setProducerGroup(group)
        self.java.start()
        if not self.is_traced:
            return
        dispatcher = self.java.getTraceDispatcher()
        self._records = _private(dispatcher, "traceContextQueue")
        producer = dispatcher.getTraceProducer().getDefaultMQProducerImpl()
        remoting = producer.getmQClientFactory().getMQClientAPIImpl().getRemotingClient()
        self._executors = [_private(dispatcher, "traceExecutor"), producer.getAsyncSenderExecutor()]
        self._requests = _private(remoting, "responseTable", remoting.getClass().getSuperclass())

    def pace(self) -> None:
        """Wait while too many trace records are outstanding."""
        while self._records is not None and self._records.size() > MAX_OUTSTANDING:
            time.sleep(0.01)

    def flush(self) -> None:
        """Send all queued trace records, and wait until the broker has them.

        Raises:
            RuntimeError: records were dropped, or are still queued or in flight after `FLUSH_SECONDS`.
        """
        if not self.is_traced:
            return
        dispatcher = self.java.getTraceDispatcher()
        dispatcher.flush()
        now = time.monotonic()
        busy, give_up = now, now + FLUSH_SECONDS
        while now < busy + CONNECT_SECONDS:
            if any(map(_has_tasks, self._executors)) or not self._requests.isEmpty():
                busy = now
            if now > give_up:
                raise RuntimeError(f"{self.client_id} could not write its trace within {FLUSH_SECONDS:.0f} s")
            time.sleep(0.02)
            now = time.monotonic()
        if dropped := _private(dispatcher, "discardCount").get():
            raise RuntimeError(f"{self.client_id} dropped {dropped} trace records: pace the traffic")


def _has_tasks(executor: Any) -> bool:
    return bool(executor.getCompletedTaskCount() < executor.getTaskCount())


def _private(target: Any, field: str, declared_in: Any = None) -> Any:
    found = (declared_in or target.getClass()).getDeclaredField(field)
    found.setAccessible(True)
    return found.get(target)


def flush(clients: Sequence[TracedClient]) -> None:
    """Flush the trace of all clients, in parallel."""
    if clients:
        with ThreadPoolExecutor(len(clients)) as pool:
            list(pool.map(lambda client: client.flush(), clients))


def shut_down(clients: Sequence[TracedClient]) -> None:
    """Flush the trace of all clients, then close them, in parallel."""
    if not clients:
        return
    flush(clients)
    with ThreadPoolExecutor(len(clients)) as pool:
        list(pool.map(lambda client: client.java.shutdown(), clients))


def producer(
    namesrv: str,
    group: str,
    instance: str,
    tracing: Tracing,
    decide: Callable[[Any, bool], str] | None = None,
) -> TracedClient:
    """A started producer; with `decide(message, is_check) -> commit|rollback|unknown` a transactional one."""
    kind = java_class(
        "client.producer.DefaultMQProducer" if decide is None else "client.producer.TransactionMQProducer"
    )
    if _release.traces_by_setter or (decide is not None and not _release.traces_transactions):
        java = kind(group)
    elif decide is None:
        java = kind(group, True, tracing.topic)
    else:
        java = kind(None, group, None, True, tracing.topic)
    if decide is not None:
        java.setTransactionListener(_transaction_listener(decide))
    java.setSendMsgTimeout(10_000)
    client = TracedClient(java, namesrv, instance, tracing)
    client.start()
    return client


def _transaction_listener(decide: Callable[[Any, bool], str]) -> Any:
    state = java_class("client.producer.LocalTransactionState")
    states = {"commit": state.COMMIT_MESSAGE, "rollback": state.ROLLBACK_MESSAGE, "unknown": state.UNKNOW}

    @jpype.JImplements("org.apache.rocketmq.client.producer.TransactionListener")
    class Listener:
        @jpype.JOverride
        def executeLocalTransaction(self, message: Any, argument: Any) -> Any:  # noqa: N802
            return states[decide(message, False)]

        @jpype.JOverride
        def checkLocalTransaction(self, message: Any) -> Any:  # noqa: N802
            return states[decide(message, True)]

    return Listener()


@dataclass(frozen=True)
class Subscription:
    """How a consumer group reads: topic → tag expression, and the listener's kind."""

    group: str
    topics: dict[str, str]
    orderly: bool = False
    broadcast: bool = False
    batch: int = 1
    max_reconsume_times: int | None = None
    consume_timeout_minutes: int = 15


def consumer(
    namesrv: str,
    subscription: Subscription,
    instance: str,
    tracing: Tracing,
    handle: Callable[[TracedClient, list[Any]], str],
) -> TracedClient:
    """A started push consumer, which has its queues.

    `handle(client, messages)` returns the outcome of the listener: `success`, `reconsume_later`,
    `null`, `exception`, or (orderly) `suspend`.

    Raises:
        TimeoutError: it was assigned no queues.
    """
    kind = java_class("client.consumer.DefaultMQPushConsumer")
    java = (
        kind(subscription.group)
        if _release.traces_by_setter
        else kind(subscription.group, True, tracing.topic)
    )
    where = java_class("common.consumer.ConsumeFromWhere")
    if subscription.broadcast:
        java.setMessageModel(java_class(f"{_release.protocol}.heartbeat.MessageModel").BROADCASTING)
        java.setConsumeFromWhere(where.CONSUME_FROM_LAST_OFFSET)
    else:
        java.setConsumeFromWhere(where.CONSUME_FROM_FIRST_OFFSET)
    java.setConsumeThreadMin(4)
    java.setConsumeThreadMax(4)
    java.setConsumeMessageBatchMaxSize(subscription.batch)
    java.setConsumeTimeout(subscription.consume_timeout_minutes)
    java.setSuspendCurrentQueueTimeMillis(200)
    if subscription.max_reconsume_times is not None:
        java.setMaxReconsumeTimes(subscription.max_reconsume_times)
    client = TracedClient(java, namesrv, instance, tracing)
    for topic, tags in subscription.topics.items():
        java.subscribe(topic, tags)
    java.setMessageListener(_listener(client, subscription.orderly, handle))
    client.start()
    return client


def wait_for_queues(client: TracedClient, timeout: float = 30.0) -> None:
    """Return once the consumer has queues to read.

    Raises:
        TimeoutError: it has none.
    """
    table = client.java.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable()
    give_up = time.monotonic() + timeout
    while table.isEmpty():
        if time.monotonic() > give_up:
            raise TimeoutError(f"{client.client_id} got no queues within {timeout:.0f} s")
        time.sleep(0.05)


def _listener(client: TracedClient, orderly: bool, handle: Callable[[TracedClient, list[Any]], str]) -> Any:
    kind = "Orderly" if orderly else "Concurrently"
    status = java_class(f"client.consumer.listener.Consume{kind}Status")
    if orderly:
        answers = {"success": status.SUCCESS, "suspend": status.SUSPEND_CURRENT_QUEUE_A_MOMENT, "null": None}
    else:
        answers = {"success": status.CONSUME_SUCCESS, "reconsume_later": status.RECONSUME_LATER, "null": None}

    @jpype.JImplements(f"org.apache.rocketmq.client.consumer.listener.MessageListener{kind}")
    class Listener:
        @jpype.JOverride
        def consumeMessage(self, messages: Any, context: Any) -> Any:  # noqa: N802
            client.pace()
            outcome = handle(client, list(messages))
            if outcome == "exception":
                raise jpype.JClass("java.lang.IllegalStateException")("the listener's plan: an exception")
            return answers[outcome]

    return Listener()


def message(
    topic: str,
    body: str,
    *,
    tags: str | None = None,
    keys: str | None = None,
    delay_level: int = 0,
    properties: dict[str, str] | None = None,
) -> Any:
    """A Java `Message`."""
    created = java_class("common.message.Message")(topic, jpype.JArray(jpype.JByte)(body.encode()))
    if tags:
        created.setTags(tags)
    if keys:
        created.setKeys(keys)
    if delay_level:
        created.setDelayTimeLevel(delay_level)
    for name, value in (properties or {}).items():
        created.putUserProperty(name, value)
    return created


def unique_id(sent: Any) -> str:
    """The message id that the client generated for a sent message."""
    return str(java_class("common.message.MessageClientIDSetter").getUniqID(sent))


def send_async(client: TracedClient, sent: Any) -> Any:
    """Send with a callback; return its result.

    Raises:
        RuntimeError: the send failed.
        TimeoutError: no answer.
    """
    answer: Future[Any] = Future()

    @jpype.JImplements("org.apache.rocketmq.client.producer.SendCallback")
    class Callback:
        @jpype.JOverride
        def onSuccess(self, result: Any) -> None:  # noqa: N802
            answer.set_result(result)

        @jpype.JOverride
        def onException(self, error: Any) -> None:  # noqa: N802
            answer.set_exception(RuntimeError(f"an asynchronous send to {sent.getTopic()} failed: {error}"))

    client.java.send(sent, Callback())
    return answer.result(ASYNC_SECONDS)


def by_key_hash(key: str) -> Any:
    """A queue selector that keeps the messages of one key in order."""
    return (
        java_class("client.producer.selector.SelectMessageQueueByHash")(),
        jpype.JClass("java.lang.String")(key),
    )
