"""Bytes rot on the way or on the broker's disk: the neighbours are untouched, and the received bytes are kept and reported."""

from __future__ import annotations

import base64
import mmap
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import ShortRangeError
from spark_jobs.rocketmq.message import MAX_INFLATED_BYTES, Message
from tests.faults.client.conftest import Mortal, read
from tests.rocketmq.conftest import MARK, Written, bodies, queue
from tests.rocketmq.java_client import run
from tests.rocketmq.proxy import Proxied, Tamper, proxy

LOG_FILE_BYTES = 64 * 1024 * 1024  # mappedFileSizeCommitLog of the sandbox
OFFSET_AT, BODY_AT = 20, 88  # of a message whose hosts are IPv4


def flip(times: int) -> tuple[Tamper, list[int]]:
    """Damage the marked body on its first `times` ways through; also says on which connections."""
    seen: list[int] = []

    def tamper(connection: int, _sent: int, data: bytes) -> bytes | None:
        if MARK in data and len(seen) < times:
            seen.append(connection)
            return data.replace(MARK, MARK[:-1] + b"?")
        return data

    return tamper, seen


def test_a_wrong_crc_is_read_again_over_a_new_connection(written: Written):
    tamper, seen = flip(1)
    with (
        proxy(written.sandbox.broker_address, tamper) as address,
        Proxied(written.sandbox.namesrv, address) as client,
    ):
        messages = read(client, "codec-NONE", 0, len(bodies()))
    assert seen == [0]
    assert [m.body for m in messages] == bodies()
    assert {m.body_error for m in messages} == {None}


def test_a_crc_that_stays_wrong_is_reported_and_costs_no_neighbour(written: Written):
    tamper, seen = flip(100)
    with (
        proxy(written.sandbox.broker_address, tamper) as address,
        Proxied(written.sandbox.namesrv, address) as client,
    ):
        messages = read(client, "codec-NONE", 0, len(bodies()))
    at = bodies().index(MARK)
    assert seen == [0, 1]
    assert messages[at].body == MARK[:-1] + b"?"
    assert (messages[at].body_error or "").startswith("crc: stored ")
    assert [m.body for m in messages if m.body_error is None] == [b for b in bodies() if b != MARK]


@pytest.mark.parametrize("codec", ["ZLIB", "LZ4", "ZSTD"])
def test_a_body_beyond_the_limit_stays_as_it_is_stored(written: Written, codec: str):
    with Client([written.sandbox.namesrv], max_inflated_bytes=100_000) as limited:
        messages = read(limited, f"codec-{codec}", 0, len(bodies()))
    assert [m.body_error is None for m in messages] == [len(body) <= 100_000 for body in bodies()]
    with Client([written.sandbox.namesrv]) as client:
        stored = read(client, f"codec-{codec}", 0, len(bodies()))
    for limited_one, whole, body in zip(messages, stored, bodies(), strict=True):
        assert whole.body == body
        if limited_one.body_error is None:
            assert limited_one == whole
        else:
            assert (
                limited_one.body_error == "too large: inflates to more than 100000 bytes (maxInflatedBytes)"
            )
            assert limited_one.body != body
            assert limited_one._replace(body=body, body_error=None) == whole
    assert max(map(len, bodies())) < MAX_INFLATED_BYTES


# What stands at each offset of the topic that is damaged on disk, and what happens to it there.
NAMES = ("good", "body", "good", "inflates no more", "good", "magic", "size", "good", "offset")
END = NAMES.index("offset")


class CommitLog:
    """The broker's files, which it maps: what is written to them it sends, whether it runs or is started later."""

    def __init__(self, mortal: Mortal) -> None:
        self._folder: Path = mortal.sandbox.folder / "store" / "commitlog"
        self._undo: list[tuple[int, bytes]] = []

    def damage(self, message: Message, at: int, data: bytes) -> None:
        """Overwrite bytes of a message, `at` bytes behind its start."""
        place = message.physical_offset + at
        self._undo.append((place, self._write(place, data)))

    def repair(self) -> None:
        """A broker that is started again would cut the log off at damage."""
        while self._undo:
            self._write(*self._undo.pop())

    def _write(self, place: int, data: bytes) -> bytes:
        file, at = divmod(place, LOG_FILE_BYTES)
        with (
            (self._folder / f"{file * LOG_FILE_BYTES:020d}").open("r+b") as opened,
            mmap.mmap(opened.fileno(), 0) as mapped,
        ):
            before = mapped[at : at + len(data)]
            mapped[at : at + len(data)] = data
        return before


@dataclass(frozen=True)
class Rotten:
    """A client of a broker whose commit log was damaged while it was down, and the messages as they were before."""

    client: Client
    before: list[Message]
    log: CommitLog


@pytest.fixture(scope="module")
def rotten(mortal: Mortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotten]:
    produce = {
        "do": "produce",
        "topic": "rotten",
        "bodies": [base64.b64encode(name.encode() * 100).decode() for name in NAMES],
        "compress": "ZLIB",
    }
    run(mortal.sandbox.namesrv, tmp_path_factory.mktemp("java"), [produce])
    with Client([mortal.sandbox.namesrv], "sandbox") as client:
        before = read(client, "rotten", 0, len(NAMES))
        log = CommitLog(mortal)
        mortal.sandbox.broker.stop()
        log.damage(before[NAMES.index("body")], BODY_AT + 5, b"\xff")
        mortal.sandbox.broker.start()
        yield Rotten(client, before, log)
        log.repair()


def test_a_body_that_rots_on_disk_keeps_its_bytes_and_costs_no_neighbour(rotten: Rotten):
    client, before = rotten.client, rotten.before
    at = NAMES.index("body")
    after = read(client, "rotten", 0, END)
    assert [m for m in after if m.queue_offset != at] == [m for m in before[:END] if m.queue_offset != at]
    damaged = after[at]
    assert (damaged.body_error or "").startswith(f"crc: stored {before[at].body_crc}, computed ")
    assert damaged.body[5] == 0xFF
    assert damaged._replace(body=before[at].body, body_error=None) == before[at]
    assert client.message_at(queue(client, "rotten"), at) == damaged


def test_a_body_with_the_crc_of_its_junk_is_reported_as_not_inflatable(rotten: Rotten):
    """A client may send junk with the flag of a codec: the CRC is right, and the body is none."""
    client, before = rotten.client, rotten.before
    at = NAMES.index("inflates no more")
    size = len(zlib.compress(before[at].body))
    junk = b"\x78\x9c" + b"\xff" * 10
    assert size > len(junk)
    rotten.log.damage(before[at], BODY_AT, junk)
    stored = read(client, "rotten", at, at + 1)[0].body
    rotten.log.damage(before[at], 8, struct.pack(">I", zlib.crc32(stored) & 0x7FFFFFFF))
    messages = read(client, "rotten", 0, END)
    assert (messages[at].body_error or "").startswith("inflate: zlib: ")
    assert messages[at].body == stored
    assert stored.startswith(junk)
    assert [m.queue_offset for m in messages] == list(range(END))


@pytest.mark.parametrize(
    ("name", "place", "data"),
    [("magic", 4, b"\0\0\0\0"), ("size", 0, b"\x7f\xff\xff\xff")],
    ids=["magic", "size"],
)
def test_a_message_that_cannot_be_taken_apart_is_the_same_however_it_is_read(
    rotten: Rotten, name: str, place: int, data: bytes
):
    client, before = rotten.client, rotten.before
    at = NAMES.index(name)
    rotten.log.damage(before[at], place, data)
    where = queue(client, "rotten")
    messages = read(client, "rotten", 0, END)
    assert [m.queue_offset for m in messages] == list(range(END))
    broken = messages[at]
    assert (broken.body_error or "").startswith("malformed: ")
    assert len(broken.body) == broken.stored_size == before[at].stored_size
    assert broken.body[place : place + 4] == data
    assert before[at].properties["number"].encode() in broken.body
    assert client.message_at(where, at) == broken
    assert client.pull(where, at, 32).messages == [broken]
    first = next(m.queue_offset for m in messages if (m.body_error or "").startswith("malformed: "))
    assert client.pull(where, 0, 32).messages == messages[:first]
    assert client.message_at(where, END - 1) == before[END - 1]


def test_a_message_that_claims_another_offset_is_missed_and_nothing_is_given_out_behind_it(rotten: Rotten):
    """Nobody can tell it from one that the broker has skipped, so the reader must not go on by itself."""
    client, before = rotten.client, rotten.before
    rotten.log.damage(before[END], OFFSET_AT, struct.pack(">q", 10**6))
    where = queue(client, "rotten")
    seen: list[int] = []
    with pytest.raises(ShortRangeError, match=f"the broker returned no message at offset {END}") as caught:
        seen.extend(m.queue_offset for batch in client.read(where, 0, len(NAMES)) for m in batch)
    assert seen == list(range(END))
    assert caught.value.offset == END
    with pytest.raises(ShortRangeError, match=f"returned no message at offset {END}"):
        client.message_at(where, END)
