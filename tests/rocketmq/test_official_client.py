"""The client rocketmq-client-python against a real broker, with a real librocketmq: it reads what the remoting client reads.

What the library hides is raised: a crash, a hang, a fork, a short answer, a body that ends at a NUL.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.native_library import environment
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.errors import (
    OffsetMovedError,
    RequestTimeoutError,
    ShortRangeError,
    TopicNotFoundError,
    UnreachableError,
)
from spark_jobs.rocketmq.librocketmq.client import LibraryClient
from spark_jobs.rocketmq.librocketmq.limits import LibraryError, UnsupportedError, UsedAfterForkError
from spark_jobs.rocketmq.librocketmq.process import LibraryProcess
from tests import official_client
from tests.rocketmq.conftest import LONG_COUNT, LONG_TOPIC, LONG_ZLIB_TOPIC, Written, queue


@pytest.fixture(scope="module")
def package() -> Iterator[Path]:
    yield from official_client.importable()


@pytest.fixture(scope="module")
def native(package: Path, written: Written) -> Iterator[LibraryClient]:
    with LibraryClient([written.sandbox.namesrv], "sandbox") as opened:
        yield opened


def messages(client, where, start: int, end: int) -> list:
    return [message for batch in client.read(where, start, end) for message in batch]


@pytest.mark.parametrize("topic", [LONG_TOPIC, LONG_ZLIB_TOPIC])
def test_20000_messages_are_those_of_the_remoting_client(client: Client, native: LibraryClient, topic: str):
    ours, theirs = (messages(each, queue(each, topic), 0, LONG_COUNT) for each in (client, native))
    assert len(theirs) == LONG_COUNT
    assert [message.body for message in theirs] == [message.body for message in ours]
    assert not [
        found for pair in zip(ours, theirs, strict=True) if (found := official_client.differences(*pair))
    ]
    if topic == LONG_ZLIB_TOPIC:
        assert {message.sys_flag & 1 for message in theirs} == {1}


@pytest.mark.parametrize("codec", ["NONE", "ZLIB"])
def test_bodies_of_every_kind(client: Client, native: LibraryClient, written: Written, codec: str):
    """From one byte to more than a pull holds, and a million NULs."""
    ours, theirs = (
        messages(each, queue(each, f"codec-{codec}"), 0, len(written.bodies)) for each in (client, native)
    )
    assert [message.body for message in theirs] == written.bodies
    assert not [
        found for pair in zip(ours, theirs, strict=True) if (found := official_client.differences(*pair))
    ]


def test_queues_and_offsets(client: Client, native: LibraryClient):
    assert [(q.broker, q.queue_id) for q in native.queues("three")] == [("broker-a", n) for n in range(3)]
    for ours, theirs in zip(client.queues("three"), native.queues("three"), strict=True):
        assert native.bounds(theirs) == client.bounds(ours)
        assert native.max_offset(theirs) == client.max_offset(ours)
        assert native.min_offset(theirs) == 0
    where = queue(native, LONG_TOPIC)
    assert native.message_at(where, LONG_COUNT - 1).queue_offset == LONG_COUNT - 1
    assert native.message_at(where, LONG_COUNT) is None


def test_bounds_are_asked_for_where_the_queue_ended_last(
    client: Client, native: LibraryClient, monkeypatch: pytest.MonkeyPatch
):
    """A broker notes each pull at an offset that it does not have."""
    sent = []
    send = LibraryProcess.send

    def noted(process: LibraryProcess, *request: object) -> None:
        sent.append(request)
        send(process, *request)

    monkeypatch.setattr(LibraryProcess, "send", noted)
    for topic, end in (("three", 10), ("codec-LZ4", 67)):
        queue_id = 2 if topic == "three" else 0
        where = queue(native, topic, queue_id)
        sent.clear()
        found = [native.bounds(where) for _ in range(3)]
        assert set(found) == {client.bounds(queue(client, topic, queue_id))}
        requests = [request for request in sent if request[0] == "bounds"]
        assert requests[1:] == [("bounds", topic, "broker-a", queue_id, end)] * 2


def test_a_call_during_a_read_does_not_disturb_it(native: LibraryClient):
    where = queue(native, LONG_TOPIC)
    offsets = []
    for batch in native.read(where, 10, 100):
        offsets += [message.queue_offset for message in batch]
        assert native.max_offset(where) == LONG_COUNT
    assert offsets == list(range(10, 100))


def test_what_was_never_written_is_raised(native: LibraryClient):
    where = queue(native, LONG_TOPIC)
    read = []
    with pytest.raises(ShortRangeError, match=f"none .* at offset {LONG_COUNT}") as caught:
        read.extend(each for batch in native.read(where, LONG_COUNT - 5, LONG_COUNT + 5) for each in batch)
    assert caught.value.offset == LONG_COUNT
    assert len(read) == 5
    with pytest.raises(OffsetMovedError, match=rf"has the offsets \[0, {LONG_COUNT}\)"):
        messages(native, where, LONG_COUNT + 50, LONG_COUNT + 60)


@pytest.mark.parametrize("codec", ["LZ4", "ZSTD"])
def test_other_codecs_are_refused_at_the_first_message(native: LibraryClient, codec: str):
    where = queue(native, f"codec-{codec}")
    for ask in (lambda: messages(native, where, 0, 7), lambda: native.message_at(where, 0)):
        with pytest.raises(
            UnsupportedError, match="message at offset 0: .* cannot be inflated as zlib"
        ) as caught:
            ask()
        assert str(caught.value).startswith(
            f"cluster sandbox, topic codec-{codec}, broker broker-a, queue 0: "
        )
        assert "\n" not in str(caught.value)


def test_a_body_above_the_limit_is_refused(package: Path, written: Written):
    with LibraryClient([written.sandbox.namesrv], "sandbox", max_inflated_bytes=999_999) as small:
        where = queue(small, "codec-ZLIB")
        assert len(messages(small, where, 0, 4)) == 4
        with pytest.raises(UnsupportedError, match="offset 4: its body inflates to more than 999999 bytes"):
            messages(small, where, 0, 6)


def test_what_the_library_has_no_request_for_is_refused(native: LibraryClient):
    with pytest.raises(UnsupportedError, match="cannot find the offset of a time"):
        native.offset_at(queue(native, "three"), 0)
    with pytest.raises(UnsupportedError, match="cannot list the registered brokers"):
        native.registered_brokers()


def test_no_nameserver_and_no_topic_are_two_errors(package: Path, native: LibraryClient):
    with (
        LibraryClient(["127.0.0.1:1"], "away", attempts=1) as away,
        pytest.raises(UnreachableError, match="can not connect to server:127.0.0.1:1.*No nameserver accepts"),
    ):
        away.queues("three")
    with pytest.raises(TopicNotFoundError, match="topic nowhere: .*Check the topic's name"):
        native.queues("nowhere")


def test_a_crash_of_the_library_is_an_error_and_the_next_call_works(native: LibraryClient):
    where = queue(native, LONG_TOPIC)
    os.kill(native.library_pid, signal.SIGSEGV)
    with pytest.raises(LibraryError, match="queue 0: .* was ended by SIGSEGV"):
        native.bounds(where)
    assert native.max_offset(where) == LONG_COUNT


def test_a_crash_during_a_read_is_an_error(package: Path, written: Written):
    with LibraryClient([written.sandbox.namesrv], "sandbox") as crashing:
        where = queue(crashing, LONG_TOPIC)
        pid = crashing.library_pid
        reading = crashing.read(where, 0, LONG_COUNT)
        assert len(next(reading)) == 32
        os.kill(pid, signal.SIGSEGV)
        with pytest.raises(LibraryError, match=r"was ended by SIGSEGV.*reading \[0, 20000\) ended before"):
            list(reading)


def test_a_library_that_hangs_is_an_error_in_time(package: Path, written: Written):
    with LibraryClient([written.sandbox.namesrv], "sandbox", timeout=0.5, attempts=1) as hanging:
        where = queue(hanging, LONG_TOPIC)
        os.kill(pid := hanging.library_pid, signal.SIGSTOP)
        with pytest.raises(RequestTimeoutError, match=r"did not return within 0\.5 s"):
            hanging.bounds(where)
        assert not Path(f"/proc/{pid}").exists()


def test_use_after_a_fork_is_an_error(native: LibraryClient):
    where = queue(native, LONG_TOPIC)
    receiver, sender = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            native.bounds(where)
        except BaseException as error:
            os.write(sender, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(sender)
    with os.fdopen(receiver) as said:
        assert re.match(rf"{UsedAfterForkError.__name__}: .*opened by process {os.getpid()}", said.read())
    assert native.max_offset(where) == LONG_COUNT  # the fork has not disturbed it


def test_the_library_ends_with_its_client(package: Path, written: Written):
    with LibraryClient([written.sandbox.namesrv], "sandbox") as opened:
        opened.queues("three")
        pid = opened.library_pid
        home = Path(f"/proc/{pid}/environ").read_bytes().split(b"HOME=")[1].split(b"\0")[0].decode()
        assert Path(home).is_dir()
    assert not Path(f"/proc/{pid}").exists()
    assert not Path(home).exists()


def test_the_library_ends_with_the_process_that_uses_it(package: Path, written: Written):
    """Even if that is killed, as a Spark task may be, and a fork of it still has the pipes."""
    code = """if True:
        import os, signal, sys, time
        from pathlib import Path
        from spark_jobs.rocketmq.librocketmq.client import LibraryClient
        client = LibraryClient([sys.argv[1]])
        client.queues("three")
        home = Path(f"/proc/{client.library_pid}/environ").read_bytes().split(b"HOME=")[1].split(b"\\0")[0].decode()
        if os.fork() == 0:
            os.close(1)
            time.sleep(20)
            os._exit(0)
        print(client.library_pid, home, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", code, written.sandbox.namesrv],
        env=environment(package), stdout=subprocess.PIPE, text=True, timeout=60,
    )  # fmt: skip
    pid, home = done.stdout.split()
    give_up = time.monotonic() + 15
    while Path(f"/proc/{pid}").exists() or Path(home).exists():
        assert time.monotonic() < give_up, f"process {pid} or {home} is still there"
        time.sleep(0.1)


def in_the_library_s_process(package: Path, namesrv: str, code: str) -> str:
    """What a process prints that uses the library itself, as `librocketmq/server.py` does."""
    head = f"""
        import ctypes, os
        from pathlib import Path
        from spark_jobs.rocketmq.librocketmq.bindings import Library
        from spark_jobs.rocketmq.librocketmq.consumer import Consumer, LostError, UsedAfterForkError
        from spark_jobs.rocketmq.librocketmq.log import Log
        log = Log(Path.home() / "logs" / "rocketmq-cpp", os.getpid())
        consumer = Consumer({namesrv!r}, "TOOLS_CONSUMER", None, log)
    """
    script = textwrap.dedent(head) + textwrap.dedent(code) + "\nos._exit(0)\n"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(package), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_body_that_ends_at_a_nul_is_an_error(package: Path, written: Written, monkeypatch, tmp_path):
    """The accessor of the C interface ends a body there; with it in place of ours the read fails."""
    monkeypatch.setenv("HOME", str(tmp_path))
    code = """
        get = Library().__dict__["_dll"].GetMessageBody
        get.restype, get.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
        Library.body = lambda self, message: get(message)
        read = 0
        try:
            for batch in consumer.read("codec-NONE", "broker-a", 0, 0, 7, 1 << 30):
                read += len(batch)
        except LostError as error:
            print(read, error, flush=True)
    """
    said = in_the_library_s_process(package, written.sandbox.namesrv, code)
    assert re.match(r"\d the message at offset \d: of its \d+ stored bytes \d+ are in no field", said)


def test_the_library_itself_is_not_used_after_a_fork(package: Path, written: Written, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    code = """
        consumer.bounds("three", "broker-a", 0)
        if os.fork() == 0:
            try:
                consumer.bounds("three", "broker-a", 0)
            except UsedAfterForkError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
    """
    said = in_the_library_s_process(package, written.sandbox.namesrv, code)
    assert "the library's threads do not run in its fork" in said


def test_without_the_package_the_first_call_names_it(written: Written, monkeypatch: pytest.MonkeyPatch):
    paths = [path for path in sys.path if not (Path(path) / "rocketmq" / "ffi.py").exists()]
    monkeypatch.setattr(sys, "path", paths)
    with (
        LibraryClient([written.sandbox.namesrv], "sandbox") as missing,
        pytest.raises(LibraryError, match="cannot be imported.*install the extra `official-client`"),
    ):
        missing.queues("three")


def test_the_shim_has_the_missing_symbols_and_no_others(package: Path):
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(package / "rocketmq" / "librocketmq.so")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = {line.split()[-1] for line in listed.stdout.splitlines() if line.split()[-2] == "T"}
    assert names - {"_init", "_fini"} == {
        "CreateOrderlyProducer",
        "SendMessageOrderlyByShardingKey",
        "CreateTransactionProducer",
        "SendMessageTransaction",
    }
    source = (package / "rocketmq" / "ffi.py").read_text()
    assert len(set(re.findall(r"dll\.(\w+)\.restype", source))) == 70
