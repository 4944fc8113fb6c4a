"""`make bench-clients`: `client = "remoting"` beside `client = "rocketmq-client-python"`, on real brokers.

Prints the table of docs/decisions/official_client.md; with `--write` it replaces the one of the page. Exits with 1 if a client
does not read what was written.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from benchmarks import targets
from benchmarks.clients import cases, speed
from benchmarks.clients.cases import Row
from benchmarks.extract import machine, topic
from benchmarks.extract.children import Child
from benchmarks.extract.java import java_command
from sandbox import native_library
from sandbox.broker import Sandbox, rocketmq
from spark_jobs.rocketmq.librocketmq.limits import OFFICIAL, REMOTING
from spark_jobs.rocketmq.options import Reader
from spark_jobs.settings import PROJECT, load_settings

PAGE = PROJECT / "docs" / "decisions" / "official_client.md"
START, END = "<!-- written by: make bench-clients -->\n", "<!-- end -->\n"
MESSAGES = 50_000
# Writing is not measured: a broker turns producers away that have waited for 200 ms.
PATIENT = {"brokerFastFailureEnable": "false"}
CODECS_JAVA = str(Path(__file__).with_name("Codecs.java"))

_console = Console(width=130, highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.clients", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    arguments = parser.parse_args()
    begin = time.monotonic()
    sys.path.insert(0, str(native_library.fetch()))
    home = load_settings().home.resolve() / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="clients-", dir=home) as scratch:
        folder = Path(scratch)
        with rocketmq(
            folder / "rocketmq",
            java_options=["-XX:TieredStopAtLevel=4"],
            extra_broker_conf=PATIENT,
            stop_in_order=False,
        ) as sandbox:
            ratio, rows, note = _speed(sandbox, folder)
            rows += [*cases.codecs(sandbox), *cases.offsets(sandbox), *cases.requests(sandbox)]
            with rocketmq(folder / "acl", extra_broker_conf=cases.ACL_CONF, stop_in_order=False) as guarded:
                rows += cases.acl(guarded)
            rows += cases.failures(sandbox)
    text = table(rows, f"{note} Machine: {machine.description()}.")
    print(text)
    if arguments.write:
        head, _, rest = PAGE.read_text().partition(START)
        PAGE.write_text(head + START + text + END + rest.partition(END)[2])
    _console.print(f"{time.monotonic() - begin:.0f} s in all")
    wrong = [f"{row.group}, {row.case}" for row in rows if "DIFFERENT" in row.official + row.remoting]
    if wrong:
        _console.print(f"not what was written: {'; '.join(wrong)}")
    return targets.report(_console, {"client_python_vs_ours": ratio}, {}) or bool(wrong)


def _speed(sandbox: Sandbox, folder: Path) -> tuple[float, list[Row], str]:
    """The throughput of the library over ours, its rows, and what was read."""
    _console.print("the official Java client writes the topics")
    written = topic.write(sandbox.namesrv, sandbox.broker_name, folder, "bench-clients", MESSAGES)
    command = java_command(
        CODECS_JAVA, folder, sandbox.namesrv, sandbox.broker_name, str(cases.CODEC_MESSAGES), *cases.CODECS
    )
    with Child("codecs", command, folder) as writer:
        writer.done()
    _console.print(f"topic: {written}", soft_wrap=True)
    readers: dict[str, Reader] = {name: cases.reader(name, sandbox) for name in (REMOTING, OFFICIAL)}
    try:
        seconds, others = speed.race(readers, written, (sandbox.broker_pid, sandbox.namesrv_pid))
    finally:
        for each in readers.values():
            each.close()
    rates = [f"{written.messages / seconds[name]:,.0f} messages/s" for name in (REMOTING, OFFICIAL)]
    first = [f"{_first_message(name, sandbox, written.name):.2f} s" for name in (REMOTING, OFFICIAL)]
    rows = [Row("speed", "one queue, one task", *rates), Row("speed", "first message", *first)]
    ratio = seconds[REMOTING] / seconds[OFFICIAL]
    note = (
        f"Speed: {written}. Ratio of the rates: {ratio:.2f}. Others used up to {others:.0%} of the machine."
    )
    return ratio, rows, note


def _first_message(name: str, sandbox: Sandbox, written: str) -> float:
    """Seconds from nothing to the first message, with the start of the library's process."""
    begin = time.perf_counter()
    with cases.reader(name, sandbox) as each:
        assert each.message_at(speed.queue_of(each, written), 0) is not None
        return time.perf_counter() - begin


def table(rows: Iterable[Row], note: str) -> str:
    """The rows as Markdown, and the note below them."""
    lines = [f"| | | `{REMOTING}` | `{OFFICIAL}` |", "| --- | --- | --- | --- |"]
    group = ""
    for row in rows:
        lines.append(
            f"| {row.group if row.group != group else ''} | {row.case} | {row.remoting} | {row.official} |"
        )
        group = row.group
    return "\n".join((*lines, "", *textwrap.wrap(note, 128), ""))


if __name__ == "__main__":
    sys.exit(main())
