"""One real broker for the whole run, with topics that the official Java client has written."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandbox.broker import Sandbox, rocketmq
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.route import MessageQueue
from tests.rocketmq import java_client

CODECS = ("NONE", "ZLIB", "LZ4", "ZSTD")
LONG_TOPIC, LONG_ZLIB_TOPIC, LONG_COUNT = "long", "long-zlib", 20_000
# A broker turns producers away that have waited for 200 ms, as happens where all tests run at once.
BUSY_MACHINE = {"brokerFastFailureEnable": "false"}
MARK = b"FLIP-THIS-BYTE"


def bodies() -> list[bytes]:
    """Bodies that compress well, badly and not at all, from 1 byte to more than one pull holds."""
    rng = random.Random(7)
    text = b"Pub\x011795000000000\x01DefaultRegion\x01group\x01topic\x02"
    return [
        b"x",
        text,
        text * 100,
        rng.randbytes(5000),
        bytes(1_000_000),
        MARK,
        rng.randbytes(300_000),
        *(f"message {number}".encode() for number in range(60)),
    ]


def many_bodies() -> list[str]:
    """Different ones, in base64: single messages, as a batch is not compressed."""
    texts = (f"Pub\x01{number}\x01DefaultRegion\x01".encode() * (number % 7) for number in range(LONG_COUNT))
    return [base64.b64encode(text or b"-").decode() for text in texts]


@dataclass(frozen=True)
class Written:
    """The broker, and what is in its topics."""

    sandbox: Sandbox
    bodies: list[bytes]
    as_java_reads: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="package")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    folder = Path(tmp_path_factory.mktemp("rocketmq"))
    encoded = [base64.b64encode(body).decode() for body in bodies()]
    with rocketmq(folder, extra_broker_conf=BUSY_MACHINE, stop_in_order=False) as sandbox:
        commands: list[dict[str, Any]] = [
            {
                "do": "produce",
                "topic": f"codec-{codec}",
                "bodies": encoded,
                "compress": codec if codec != "NONE" else None,
            }
            for codec in CODECS
        ]
        commands += [
            {"do": "produce", "topic": LONG_TOPIC, "count": LONG_COUNT, "size": 200},
            {
                "do": "produce",
                "topic": LONG_ZLIB_TOPIC,
                "bodies": many_bodies(),
                "compress": "ZLIB",
                "threads": 16,
            },
            {"do": "produce", "topic": "three", "queues": 3, "queue": 0, "count": 1000, "size": 50},
            {"do": "produce", "topic": "three", "queues": 3, "queue": 2, "count": 10, "size": 50},
            {"do": "produce", "topic": "many", "queues": 64, "queue": 63, "count": 7, "size": 50},
        ]
        commands += [{"do": "pull", "topic": f"codec-{codec}"} for codec in CODECS]
        results = java_client.run(sandbox.namesrv, folder / "java", commands)
        yield Written(sandbox, bodies(), dict(zip(CODECS, results[-len(CODECS) :], strict=True)))


@pytest.fixture
def client(written: Written) -> Iterator[Client]:
    with Client([written.sandbox.namesrv], "sandbox") as opened:
        yield opened


def queue(client: Client, topic: str, queue_id: int = 0) -> MessageQueue:
    return next(each for each in client.queues(topic) if each.queue_id == queue_id)
