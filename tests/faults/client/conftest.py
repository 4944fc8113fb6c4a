"""Real brokers for the client to fail with: one that everybody shares, and one that may be hurt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.broker import Sandbox, rocketmq
from sandbox.ports import ports_of
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.message import Message
from tests.faults.client.certificates import Authority, KeyPair
from tests.rocketmq.conftest import BUSY_MACHINE, client, queue, written
from tests.rocketmq.java_client import run

__all__ = ["client", "written"]  # the fixtures of tests/rocketmq, used as they are

MORTAL_TOPIC, MORTAL_COUNT = "mortal", 4000
SEALED_TOPIC, SEALED_COUNT = "sealed", 1500


@dataclass(frozen=True)
class Mortal:
    """A broker of its own with two nameservers, which tests may hurt and leave running as they found it."""

    sandbox: Sandbox
    second: Sandbox

    @property
    def namesrvs(self) -> list[str]:
        return [self.sandbox.namesrv, self.second.namesrv]


@pytest.fixture(scope="package")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortal]:
    folder = Path(tmp_path_factory.mktemp("mortal"))
    first = folder / "first"
    first.mkdir()
    second = lone_nameserver(folder / "second")
    second.nameserver.start()
    conf = {
        **BUSY_MACHINE,
        "namesrvAddr": f"127.0.0.1:{ports_of(first).namesrv};{second.namesrv}",
        # Else a start cuts the commit log off at a wrong CRC within its last three files, of 1 GB each.
        "checkCRCOnRecover": "false",
    }
    try:
        with rocketmq(first, extra_broker_conf=conf, stop_in_order=False) as sandbox:
            produce = {"do": "produce", "topic": MORTAL_TOPIC, "count": MORTAL_COUNT, "size": 300}
            run(sandbox.namesrv, folder / "java", [produce])
            yield Mortal(sandbox, second)
    finally:
        second.kill()


@dataclass(frozen=True)
class Sealed:
    """A cluster whose nameserver has a certificate of `ca`, and whose broker wants to see one of it, too.

    Both answer with headers of the binary codec.
    """

    sandbox: Sandbox
    ca: Authority
    client: KeyPair


@pytest.fixture(scope="package")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealed]:
    folder = Path(tmp_path_factory.mktemp("sealed"))
    ca = Authority(folder / "ca")
    server = ca.issue("server", addresses=["127.0.0.1"])
    options = [
        "-Drocketmq.serialize.type=ROCKETMQ",
        "-Dtls.test.mode.enable=false",
        f"-Dtls.config.file={folder / 'none'}",
        f"-Dtls.server.certPath={server.certificate}",
        f"-Dtls.server.keyPath={server.key}",
    ]
    demands = [
        "-Dtls.server.need.client.auth=require",
        "-Dtls.server.authClient=true",
        f"-Dtls.server.trustCertPath={ca.certificate}",
    ]
    nameserver = lone_nameserver(folder / "nameserver", options)
    nameserver.nameserver.start()
    try:
        with rocketmq(
            folder / "broker",
            join=nameserver.namesrv,
            extra_broker_conf=BUSY_MACHINE,
            java_options=[*options, *demands],
            stop_in_order=False,
        ) as sandbox:
            produce = {"do": "produce", "topic": SEALED_TOPIC, "count": SEALED_COUNT, "size": 300}
            run(sandbox.namesrv, folder / "java", [produce])
            yield Sealed(sandbox, ca, ca.issue("client"))
    finally:
        nameserver.kill()


def lone_nameserver(folder: Path, java_options: Sequence[str] = ()) -> Sandbox:
    """A nameserver alone, not started yet."""
    (folder / "tmp").mkdir(parents=True)
    return Sandbox(folder, java_options=java_options)


def read(client: Client, topic: str, start: int, end: int, queue_id: int = 0) -> list[Message]:
    return [m for batch in client.read(queue(client, topic, queue_id), start, end) for m in batch]


def offsets(client: Client, topic: str, start: int, end: int) -> list[int]:
    return [m.queue_offset for m in read(client, topic, start, end)]
