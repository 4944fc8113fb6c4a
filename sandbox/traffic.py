"""Real traffic from the official Java client.

Each application of `sandbox.scenarios` is a process of its own. They send, consume, fail and retry as planned, and
record what they did (`sandbox.record` has the fields). A run ends when every message has been processed by every group that
receives it, the clients are closed, and the broker's trace topics contain exactly the expected records.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from rich.console import Console

from deploy import child_process
from sandbox import admin, python_app, scenarios
from sandbox.outstanding import Outstanding
from sandbox.record import Record, new_run, offsets_from_json, trace_records
from sandbox.releases import NEWEST, Release
from spark_jobs.lake import jars
from spark_jobs.settings import PROJECT

log = logging.getLogger(__name__)

COMMAND_SECONDS = 120.0
QUIET_SECONDS = 90.0
FULL_EXTRA_SECONDS = 150.0
LOG_EVERY_SECONDS = 5.0
TRACE_SECONDS = 10.0
STOP_SECONDS = 3.0
POLL_SECONDS = 0.2

# Record type → position of the message id in the record.
MESSAGE_ID = {"Pub": 5, "SubBefore": 5, "SubAfter": 2, "EndTransaction": 5}


class TrafficError(RuntimeError):
    """The traffic did not run as planned; the message names the process and its log."""


class AppProcess:
    """A running `sandbox.app`, which takes commands."""

    def __init__(self, name: str, command: Sequence[str], run: Path, path: Path | None = None):
        """Start `python -m` with the command; `path` is another folder to import from."""
        self.name = name
        self.log_file = run / f"{name}.log"
        folders = os.pathsep.join(str(each) for each in (PROJECT, path) if each)
        with self.log_file.open("wb") as errors:
            self._process = child_process.spawn(
                [sys.executable, "-m", *command],
                env={**os.environ, "PYTHONPATH": folders, "TZ": "UTC"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def execute(self, command: str) -> Any:
        """Execute a command; return its result.

        Raises:
            TrafficError: the command failed, or the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed("has ended") from None
        if not (line := self._process.stdout.readline()):
            raise self._failed(f"ended with code {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise self._failed(f"failed at '{command}': {answer['error']}")
        return answer["result"]

    def _failed(self, what: str) -> TrafficError:
        lines = self.log_file.read_text(errors="replace").splitlines()[-20:]
        return TrafficError(
            f"application '{self.name}' {what}. Its log: {self.log_file}\n" + "\n".join(lines)
        )

    def close(self) -> None:
        """End the process if it is still there."""
        child_process.end(self._process, STOP_SECONDS)


def generate(
    namesrv: str,
    messages: int,
    record_dir: Path,
    full: bool = False,
    *,
    release: Release = NEWEST,
    python: Path | None = None,
) -> Path:
    """Generate traffic and record it; return the folder of the new run below `record_dir`.

    Args:
        namesrv: the nameserver's "host:port".
        messages: number of plain messages; about 150 special ones are added.
        record_dir: gets a new `run-NNNN`, and `client` for the Java client's logs and offsets.
        full: include consume timeouts, which take more than a minute.
        python: the package of `sandbox.native_library`: a producer of rocketmq-client-python sends, too.
        release: of the clients; an older one needs the topics that a run of the newest has created.

    Raises:
        TrafficError: a process failed, messages were not consumed in time, or trace records are missing.
    """
    jars.fetch(release.ivy_file)
    run = new_run(record_dir.resolve())
    begin = logged = time.monotonic()
    outstanding = Outstanding(run)
    console = Console(stderr=True)
    total = sum(
        len(sends)
        for app in scenarios.APPS
        for sends in (
            scenarios.bulk_sends(app.name, messages),
            scenarios.special_sends(app.name, full),
            scenarios.late_sends(app.name),
        )
    ) + (len(scenarios.python_sends(messages)) if python else 0)

    def show(phase: str) -> None:
        """Show the progress: on a terminal always, elsewhere every few seconds."""
        nonlocal logged
        deliveries = len(outstanding.open) + outstanding.finished
        state = f"{phase}: {len(outstanding.record.sends)}/{total} sent, {outstanding.finished}/{deliveries} deliveries finished"
        status.update(state)
        if not console.is_terminal and time.monotonic() - logged >= LOG_EVERY_SECONDS:
            logged = time.monotonic()
            log.info("%s", state)

    def step(command: str, apps: Sequence[AppProcess]) -> Any:
        started = time.monotonic()
        limit = COMMAND_SECONDS + messages / 50
        answers = {pool.submit(app.execute, command): app.name for app in apps}
        waiting = set(answers)
        while waiting:
            done, waiting = wait(waiting, POLL_SECONDS)
            results = [answer.result() for answer in done]
            outstanding.read()
            show(command)
            if waiting and time.monotonic() - started > limit:
                names = ", ".join(answers[each] for each in waiting)
                raise TrafficError(f"'{command}' took more than {limit:.0f} s in: {names}. Logs: {run}/*.log")
        return results[0]

    def settle() -> None:
        moved = time.monotonic()
        finished = outstanding.finished
        limit = QUIET_SECONDS + messages / 100 + (FULL_EXTRA_SECONDS if full else 0)
        while outstanding.read():
            show("waiting for the last deliveries")
            if outstanding.finished > finished:
                finished, moved = outstanding.finished, time.monotonic()
            if time.monotonic() - moved > limit:
                raise TrafficError(f"none consumed for {limit:.0f} s: {outstanding}. Logs: {run}/*.log")
            time.sleep(POLL_SECONDS)

    with (
        console.status("starting") as status,
        ThreadPoolExecutor(len(scenarios.APPS) + 1) as pool,
        ExitStack() as processes,
    ):
        given = ["--namesrv", namesrv, "--messages", str(messages), "--run", str(run)]
        of_java = ["--release", release.version, *(["--full"] if full else [])]
        apps = [
            processes.enter_context(
                closing(AppProcess(spec.name, ["sandbox.app", spec.name, *given, *of_java], run))
            )
            for spec in scenarios.APPS
        ]
        if python:
            apps.append(
                processes.enter_context(
                    closing(AppProcess(python_app.NAME, ["sandbox.python_app", *given], run, python))
                )
            )
        if release == NEWEST:
            before = offsets_from_json(step("prepare", apps[:1]))
        else:
            before = admin.trace_offsets(namesrv, scenarios.TRACE_TOPICS)
        step("connect", apps)
        step("send", apps)
        settle()
        step("send-late", apps)
        settle()
        step("stop", apps)
    outstanding.read()
    # A broker adds a message to its consume queue, which is read here, after it has answered.
    give_up = time.monotonic() + TRACE_SECONDS
    while True:
        after, stored = admin.trace_messages(namesrv, scenarios.TRACE_TOPICS, before)
        differences = check_trace(outstanding.record, stored)
        if not differences or time.monotonic() > give_up:
            break
    (run / "offsets.json").write_text(json.dumps({"before": before, "after": after}, indent=1))
    if differences:
        raise TrafficError("the broker's trace differs from what the clients did: " + "; ".join(differences))
    log.info("%s", _sentence(outstanding.record, time.monotonic() - begin))
    return run


def check_trace(record: Record, messages: Iterable[dict[str, Any]]) -> list[str]:
    """The differences, in words; empty if each topic has exactly the expected records.

    A client sends a trace message again if the broker's answer is late, and the broker may then store it twice. But
    equal records may also be of several decisions on a transaction within a millisecond. So of equal records between one and
    all count.
    """
    records = [
        (message["topic"], *fields) for message in messages for fields in trace_records(message["body"])
    ]
    stored, distinct = _by_message(records), _by_message({*records})
    expected = record.expected_of_messages()
    return [
        f"{topic} has {found} {record_type} records of message {msg_id}, expected {expected[key]}"
        for key in sorted({*expected, *stored})
        for found in [min(max(expected[key], distinct[key]), stored[key])]
        if found != expected[key]
        for topic, record_type, msg_id in [key]
    ]


def _by_message(records: Iterable[tuple[str, ...]]) -> Counter[tuple[str, str, str]]:
    """(Trace topic, record type, message id) → number of records."""
    return Counter((topic, fields[0], fields[MESSAGE_ID[fields[0]]]) for topic, *fields in records)


def _sentence(record: Record, seconds: float) -> str:
    failed = sum(each["outcome"] != "success" for each in record.consumes)
    expected = record.expected()
    records = sum(counts.total() for counts in expected.values())
    return (
        f"{len(record.sends)} sends, {len(record.consumes)} consume attempts ({failed} failed as planned), "
        f"{len(record.transactions)} transaction decisions → {records} trace records in "
        f"{len(expected)} topics, all accounted for; {seconds:.1f} s"
    )
