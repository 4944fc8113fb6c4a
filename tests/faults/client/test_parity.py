"""What this client reads is what the official Java client reads: every field of every message."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.inflate import COMPRESSED
from tests.rocketmq import variety
from tests.rocketmq.conftest import Written
from tests.rocketmq.java_client import run
from tests.soak import IS_SOAK

TOPIC, COUNT, SEED = "variety", 20_000 if IS_SOAK else 3_000, 11
FLAGS = {0x000: "NONE", 0x301: "ZLIB", 0x101: "LZ4", 0x201: "ZSTD"}


# The broker keeps each batch of this topic as one message.
BATCH_TOPIC, BATCH_COUNT = "batch-queue", 2_000 if IS_SOAK else 500


@dataclass(frozen=True)
class AsJavaReads:
    """Each topic as the Java client reads it, by queue and offset; the body as its digest."""

    various: list[dict[str, Any]]
    batches: list[dict[str, Any]]


@pytest.fixture(scope="module")
def java(written: Written, tmp_path_factory: pytest.TempPathFactory) -> AsJavaReads:
    folder = Path(tmp_path_factory.mktemp("parity"))
    files = [str(folder / f"{topic}.json") for topic in (TOPIC, BATCH_TOPIC)]
    commands = [
        {"do": "produce_variety", "topic": TOPIC, "count": COUNT, "seed": SEED},
        {
            **{"do": "produce", "topic": BATCH_TOPIC, "count": BATCH_COUNT, "size": 60},
            "attributes": {"+queue.type": "BatchCQ"},
        },
        {"do": "dump", "topic": TOPIC, "queues": variety.QUEUES, "file": files[0]},
        {"do": "dump", "topic": BATCH_TOPIC, "queues": 1, "file": files[1]},
    ]
    run(written.sandbox.namesrv, folder, commands)
    return AsJavaReads(*([json.loads(line) for line in Path(file).open()] for file in files))


def as_we_read(client: Client, topic: str) -> Iterator[dict[str, Any]]:
    """Every message of the topic by queue and offset, the body as its digest."""
    for queue in client.queues(topic):
        bounds = client.bounds(queue)
        for batch in client.read(queue, bounds.min_offset, bounds.max_offset):
            for message in batch:
                assert message.body_error is None
                yield {**message._asdict(), "body": hashlib.sha256(message.body).hexdigest()}


def test_every_field_of_every_message_is_what_the_java_client_reads(client: Client, java: AsJavaReads):
    assert len(java.various) == COUNT
    for ours, theirs in zip(as_we_read(client, TOPIC), java.various, strict=True):
        # The Java client drops this bit from what it has inflated; we give the flags as they are stored.
        ours["sys_flag"] &= ~COMPRESSED
        differing = {name: (ours[name], theirs[name]) for name in theirs if ours[name] != theirs[name]}
        assert not differing, (theirs["queue_id"], theirs["queue_offset"])


def test_batches_that_the_broker_keeps_as_one_message_come_apart_as_in_the_java_client(
    client: Client, java: AsJavaReads
):
    assert [each["queue_offset"] for each in java.batches] == list(range(BATCH_COUNT))
    for ours, theirs in zip(as_we_read(client, BATCH_TOPIC), java.batches, strict=True):
        differing = {name: (ours[name], theirs[name]) for name in theirs if ours[name] != theirs[name]}
        assert not differing, theirs["queue_offset"]


def test_every_message_is_as_it_was_sent(client: Client, java: AsJavaReads):
    by_number = {int(each["properties"]["number"]): each for each in as_we_read(client, TOPIC)}
    assert sorted(by_number) == list(range(COUNT))
    for sent in variety.messages(COUNT, SEED):
        read = by_number[sent.number]
        assert read["body"] == hashlib.sha256(sent.body).hexdigest(), sent.number
        assert read["queue_id"] == sent.queue
        assert FLAGS[read["sys_flag"] & 0x701] == sent.codec
        assert read["properties"].get("TAGS") == sent.tag
        assert read["properties"].get("KEYS", "") == sent.keys
        assert sent.properties.items() <= read["properties"].items()


def test_the_messages_are_of_all_kinds():
    sent = list(variety.messages(COUNT, SEED))
    for codec in variety.CODECS:
        sizes = [len(each.body) for each in sent if each.codec == codec]
        assert min(sizes) < 3
        assert max(sizes) == 1_000_000
    assert {each.queue for each in sent} == set(range(variety.QUEUES))
    assert sum(each.in_batch for each in sent) == COUNT // 2
    assert any(each.delayed for each in sent)
