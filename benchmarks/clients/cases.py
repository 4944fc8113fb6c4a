"""What each client does in one case, in a few words: what it returned, or its error and after how long."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from benchmarks.clients.speed import are_equal, messages, queue_of
from sandbox.broker import Sandbox
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.rocketmq.librocketmq.limits import OFFICIAL, REMOTING
from spark_jobs.rocketmq.options import Options, Reader
from spark_jobs.rocketmq.route import MessageQueue

CODECS = ("NONE", "ZLIB", "LZ4", "ZSTD")
CODEC_MESSAGES = 20_000
ADMIN, WRONG = Credentials("admin", "admin-secret"), Credentials("admin", "another-secret")
_AUTH = "org.apache.rocketmq.auth."
ACL_CONF = {
    "authenticationEnabled": "true",
    "authenticationProvider": _AUTH + "authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": _AUTH + "authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": '{"username":"admin","password":"admin-secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"admin","secretKey":"admin-secret"}',
}
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


@dataclass(frozen=True)
class Row:
    """A row of the page's table: the case, and what happened with each client."""

    group: str
    case: str
    remoting: str
    official: str


def reader(
    client: str, sandbox: Sandbox, credentials: Credentials | None = None, attempts: int = 1, **options: str
) -> Reader:
    """A client of that name; options as of the data source."""
    given = {"namesrv": sandbox.namesrv, "topic": "any", "client": client, **options}
    return Options.parse(given).open(credentials, attempts)


def outcome(ask: Callable[[], Any]) -> str:
    """What a call returned, as text; or the error's name and the seconds until it was raised."""
    begin = time.monotonic()
    try:
        return str(ask())
    except (RocketMQError, ValueError) as error:
        return f"`{type(error).__name__}` after {time.monotonic() - begin:.1f} s"


def _both(group: str, case: str, ask: Callable[[str], Any]) -> Row:
    return Row(group, case, *(outcome(lambda name=name: ask(name)) for name in (REMOTING, OFFICIAL)))  # type: ignore[misc]


def codecs(sandbox: Sandbox) -> list[Row]:
    """Read the topic of each codec, and compare with what the remoting client reads."""

    def read(name: str, codec: str) -> str:
        topic = f"codec-{codec}"
        with reader(name, sandbox) as each, reader(REMOTING, sandbox) as reference:
            found = messages(each, topic, CODEC_MESSAGES)
            equal = are_equal(found, messages(reference, topic, CODEC_MESSAGES))
        return f"{len(found):,} messages, {'all fields equal' if equal else 'DIFFERENT'}"

    return [
        _both("codecs", codec.lower(), lambda name, codec=codec: read(name, codec))  # type: ignore[misc]
        for codec in CODECS
    ]


def offsets(sandbox: Sandbox) -> list[Row]:
    """What can be asked about offsets, and a range that is not there."""

    def with_queue(ask: Callable[[Reader, Any], Any]) -> Callable[[str], Any]:
        def run(name: str) -> Any:
            with reader(name, sandbox) as each:
                return ask(each, queue_of(each, "codec-NONE"))

        return run

    end = CODEC_MESSAGES
    asked: list[tuple[str, Callable[[Reader, Any], Any]]] = [
        ("min and max offset", lambda each, queue: f"{each.min_offset(queue)}, {each.max_offset(queue)}"),
        ("offset of a time", lambda each, queue: each.offset_at(queue, 0)),
        ("range beyond the end", lambda each, queue: len(list(each.read(queue, end - 5, end + 5)))),
        ("offsets never written", lambda each, queue: len(list(each.read(queue, end + 50, end + 60)))),
    ]
    return [_both("offsets", case, with_queue(ask)) for case, ask in asked]


def requests(sandbox: Sandbox) -> list[Row]:
    """What else a cluster is asked for."""

    def tls(name: str) -> str:
        reader(name, sandbox, tls="insecure").close()
        return "accepted"

    def brokers(name: str) -> str:
        with reader(name, sandbox) as each:
            return f"{len(each.registered_brokers())} broker"

    return [_both("requests", "TLS", tls), _both("requests", "registered brokers", brokers)]


def acl(guarded: Sandbox) -> list[Row]:
    """A broker that asks for signatures, asked with the right ones, wrong ones and none."""

    def read(credentials: Credentials | None) -> Callable[[str], str]:
        def run(name: str) -> str:
            with reader(name, guarded, credentials, attempts=4) as each:
                assert each.message_at(queue_of(each, TRACE_TOPIC), 0) is None
                return "accepted"

        return run

    asked = (("right secret", ADMIN), ("wrong secret", WRONG), ("no credentials", None))
    return [_both("ACL", case, read(credentials)) for case, credentials in asked]


def failures(sandbox: Sandbox) -> list[Row]:
    """What fails outside of the client. The broker is killed, and the nameserver then: nothing else can follow."""

    def bounds(name: str, before: Callable[[Reader], None]) -> Any:
        with reader(name, sandbox) as each:
            queue = queue_of(each, "codec-NONE")
            each.bounds(queue)
            before(each)
            return each.bounds(queue).max_offset

    def unknown(name: str) -> Any:
        with reader(name, sandbox) as each:
            return each.queues("no-such-topic")

    def forked(name: str) -> str:
        with reader(name, sandbox) as each:
            queue = queue_of(each, "codec-NONE")
            receiver, sender = os.pipe()
            if (pid := os.fork()) == 0:
                said = outcome(lambda: each.bounds(queue) and "answered, not noticed")
                os.write(sender, said.encode())
                os._exit(0)
            os.waitpid(pid, 0)
            os.close(sender)
            with os.fdopen(receiver) as answer:
                return answer.read()

    def crashed(name: str) -> Any:
        if name == REMOTING:
            return "no native code"
        return bounds(name, lambda each: os.kill(each.library_pid, signal.SIGSEGV))  # type: ignore[union-attr,arg-type]

    def hanging(name: str) -> Any:
        try:
            return bounds(name, lambda _: os.kill(sandbox.broker_pid, signal.SIGSTOP))
        finally:
            with suppress(ProcessLookupError):
                os.kill(sandbox.broker_pid, signal.SIGCONT)

    rows = [
        _both("failures", "topic unknown", unknown),
        _both("failures", "used after a fork", forked),
        _both("failures", "native code crashes", crashed),
        _both("failures", "broker does not answer", hanging),
    ]
    opened: dict[str, Reader] = {name: reader(name, sandbox) for name in (REMOTING, OFFICIAL)}
    queues: dict[str, MessageQueue] = {name: queue_of(each, "codec-NONE") for name, each in opened.items()}
    sandbox.broker.kill()
    rows.append(_both("failures", "broker down", lambda name: opened[name].bounds(queues[name])))
    sandbox.nameserver.kill()
    rows.append(_both("failures", "nameserver away", lambda name: opened[name].queues("codec-NONE")))
    for each in opened.values():
        each.close()
    return rows
