"""Real traffic from the official Java client: `python -m sandbox.traffic --namesrv H:P --record DIR`.

Each application of `sandbox.scenarios` is a process of its own. They send, consume, fail and retry as planned, and
record what they did (`sandbox.record` has the fields). A run ends when every message has been processed by every group that
receives it, the clients are closed, and the broker's trace topics contain exactly the expected records.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from deploy import child_process
from sandbox import admin, scenarios
from sandbox.admin import trace_offsets
from sandbox.outstanding import Outstanding
from sandbox.record import new_run, offsets_from_json, read_record, record_types
from sandbox.releases import NEWEST, Release
from spark_jobs.lake import jars

log = logging.getLogger(__name__)

COMMAND_SECONDS = 120.0
QUIET_SECONDS = 90.0
FULL_EXTRA_SECONDS = 150.0
LOG_EVERY_SECONDS = 5.0
STOP_SECONDS = 3.0


class TrafficError(RuntimeError):
    """The traffic did not run as planned; the message names the process and its log."""


class AppProcess:
    """A running `sandbox.app`, which takes commands."""

    def __init__(self, name: str, namesrv: str, messages: int, run: Path, full: bool, release: Release):
        self.name = name
        self.log_file = run / f"{name}.log"
        command = [sys.executable, "-m", "sandbox.app", name, "--namesrv", namesrv]
        command += ["--messages", str(messages), "--run", str(run), "--release", release.version]
        command += ["--full"] if full else []
        project = str(Path(__file__).resolve().parent.parent)
        with self.log_file.open("wb") as errors:
            self._process = child_process.spawn(
                command,
                env={**os.environ, "PYTHONPATH": project, "TZ": "UTC"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def send(self, command: str) -> None:
        """Send a command without waiting for its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed("has ended") from None

    def answer(self, timeout: float) -> dict[str, Any] | None:
        """The answer to the last command; None if there is none yet.

        Raises:
            TrafficError: the command failed, or the process has ended.
        """
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            return None
        if line is None:
            raise self._failed(f"ended with code {self._process.wait()}")
        answer = json.loads(line)
        if "failed" in answer:
            raise self._failed(f"failed at '{answer['failed']}': {answer['error']}")
        return answer

    def _failed(self, what: str) -> TrafficError:
        lines = self.log_file.read_text(errors="replace").splitlines()[-20:]
        return TrafficError(
            f"application '{self.name}' {what}. Its log: {self.log_file}\n" + "\n".join(lines)
        )

    def close(self) -> None:
        """End the process if it is still there."""
        child_process.end(self._process, STOP_SECONDS)


class _Show:
    """A progress bar on a terminal, a log line every few seconds elsewhere."""

    def __init__(self, console: Console):
        self._bar = None
        self._logged = time.monotonic()
        if console.is_terminal:
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description:<34}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("starting", total=None)
            self._bar.start()

    def __call__(self, phase: str, outstanding: Outstanding, total: int) -> None:
        """`total` is the number of sends planned."""
        deliveries = len(outstanding.open) + outstanding.finished
        state = f"{outstanding.sent}/{total} sent, {outstanding.finished}/{deliveries} deliveries finished"
        if self._bar:
            done = min(outstanding.sent, total) + outstanding.finished
            self._bar.update(self._task, description=phase, completed=done, total=total + deliveries)
        elif time.monotonic() - self._logged >= LOG_EVERY_SECONDS:
            self._logged = time.monotonic()
            log.info("%s: %s", phase, state)

    def close(self) -> None:
        if self._bar:
            self._bar.stop()


def generate(
    namesrv: str,
    messages: int,
    record_dir: Path,
    full: bool = False,
    *,
    check: bool = True,
    release: Release = NEWEST,
) -> Path:
    """Generate traffic and record it; return the folder of the new run below `record_dir`.

    Args:
        namesrv: the nameserver's "host:port".
        messages: number of plain messages; about 150 special ones are added.
        record_dir: gets a new `run-NNNN`, and `client` for the Java client's logs and offsets.
        full: include consume timeouts, which take more than a minute.
        check: compare the broker's trace with the record; not possible while others write to it.
        release: of the clients; an older one needs the topics that a run of the newest has created.

    Raises:
        TrafficError: a process failed, messages were not consumed in time, or trace records are missing.
    """
    jars.fetch(release.ivy_file)
    run = new_run(record_dir.resolve())
    begin = time.monotonic()
    outstanding = Outstanding(run)
    show = _Show(Console(stderr=True))
    total = sum(
        len(sends)
        for app in scenarios.APPS
        for sends in (
            scenarios.bulk_sends(app.name, messages),
            scenarios.special_sends(app.name, full),
            scenarios.late_sends(app.name),
        )
    )
    seconds: dict[str, float] = {}

    def step(command: str, apps: Sequence[AppProcess]) -> Any:
        started = time.monotonic()
        answer = None
        for app in apps:
            app.send(command)
        waiting = list(apps)
        while waiting:
            for app in list(waiting):
                if (answer := app.answer(0.1)) is not None:
                    waiting.remove(app)
            outstanding.read()
            show(command, outstanding, total)
            limit = COMMAND_SECONDS + messages / 50
            if time.monotonic() - started > limit:
                names = ", ".join(app.name for app in waiting)
                raise TrafficError(f"'{command}' took more than {limit:.0f} s in: {names}. Logs: {run}/*.log")
        seconds[command] = round(time.monotonic() - started, 1)
        return answer and answer["result"]

    def settle() -> None:
        started = moved = time.monotonic()
        finished = outstanding.finished
        limit = QUIET_SECONDS + messages / 100 + (FULL_EXTRA_SECONDS if full else 0)
        while outstanding.read():
            show("waiting for the last deliveries", outstanding, total)
            if outstanding.finished > finished:
                finished, moved = outstanding.finished, time.monotonic()
            if time.monotonic() - moved > limit:
                raise TrafficError(f"none consumed for {limit:.0f} s: {outstanding}. Logs: {run}/*.log")
            time.sleep(0.2)
        seconds["settle"] = round(seconds.get("settle", 0) + time.monotonic() - started, 1)

    try:
        with _applications(namesrv, messages, run, full, release) as apps:
            if release == NEWEST:
                before = offsets_from_json(step("prepare", apps[:1]))
            else:
                before = trace_offsets(namesrv, scenarios.TRACE_TOPICS)
            step("connect", apps)
            step("send", apps)
            settle()
            step("send-late", apps)
            step("stop", apps)
        after, stored = admin.trace_messages(namesrv, scenarios.TRACE_TOPICS, before)
    finally:
        show.close()
    (run / "offsets.json").write_text(json.dumps({"before": before, "after": after}, indent=1))
    record = read_record(run)
    differences = check_trace(record.expected(), count_records(stored))
    if check and differences:
        raise TrafficError("the broker's trace differs from what the clients did: " + "; ".join(differences))
    seconds["total"] = round(time.monotonic() - begin, 1)
    summary = {**record.summary(), "trace_records": record.expected(), "seconds": seconds}
    (run / "summary.json").write_text(json.dumps(summary, indent=1))
    log.info("%s", _sentence(summary))
    return run


@contextmanager
def _applications(
    namesrv: str, messages: int, run: Path, full: bool, release: Release
) -> Iterator[list[AppProcess]]:
    apps: list[AppProcess] = []
    try:
        for spec in scenarios.APPS:
            apps.append(AppProcess(spec.name, namesrv, messages, run, full, release))
        yield apps
    finally:
        for app in apps:
            app.close()


def count_records(messages: Iterable[dict[str, Any]]) -> dict[str, Counter[str]]:
    """Trace topic → record type → records in the trace messages.

    A client sends a trace message again if the broker's answer is late, and the broker may then store
    it twice. The copies have the same body and count once.
    """
    counts: dict[str, Counter[str]] = {}
    for topic, body in {(message["topic"], message["body"]) for message in messages}:
        counts.setdefault(topic, Counter()).update(record_types(body))
    return counts


def check_trace(expected: dict[str, Counter[str]], found: dict[str, Counter[str]]) -> list[str]:
    """The differences, in words; empty if each topic has exactly the expected records."""
    return [
        f"{topic} has {found.get(topic, Counter())[kind]} {kind} records, expected {wanted}"
        for topic in sorted({*expected, *found})
        for kind in sorted({*expected.get(topic, ()), *found.get(topic, ())})
        if (wanted := expected.get(topic, Counter())[kind]) != found.get(topic, Counter())[kind]
    ]


def _sentence(summary: dict[str, Any]) -> str:
    sends, consumes = sum(summary["sends"].values()), sum(summary["consumes"].values())
    failed = consumes - summary["consumes"].get("success", 0)
    records = sum(sum(counts.values()) for counts in summary["trace_records"].values())
    return (
        f"{sends} sends, {consumes} consume attempts ({failed} failed as planned), "
        f"{sum(summary['transactions'].values())} transaction decisions → {records} trace records in "
        f"{len(summary['trace_records'])} topics, all accounted for; {summary['seconds']['total']} s"
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="sandbox.traffic", description="traffic with message trace on")
    parser.add_argument("--namesrv", required=True, help="host:port")
    parser.add_argument("--messages", type=int, default=2000, help="plain messages (default 2000)")
    parser.add_argument("--record", type=Path, required=True, help="folder for what the clients did")
    parser.add_argument("--full", action="store_true", help="with consume timeouts: takes a minute more")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    handler: logging.Handler = (
        RichHandler(console=console, show_path=False) if console.is_terminal else logging.StreamHandler()
    )
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])
    try:
        run = generate(arguments.namesrv, arguments.messages, arguments.record, arguments.full)
    except TrafficError as error:
        sys.exit(f"traffic failed: {error}")
    except KeyboardInterrupt:
        sys.exit("traffic interrupted: its processes have ended; the record of this run has no offsets.json")
    print(run)


if __name__ == "__main__":
    main()
