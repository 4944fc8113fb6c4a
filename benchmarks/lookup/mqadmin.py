"""The trace of a recent message: `make message` beside `mqadmin queryMsgTraceById`, each as a whole command.

A real broker with traced traffic, and the pipeline run once over it. mqadmin is the class that its script starts, with
that script's options of the JVM.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks.lookup.race import look_up
from sandbox.broker import TRACE_TOPIC, rocketmq
from sandbox.releases import NEWEST
from sandbox.traffic import generate
from spark_jobs.lake import jars
from spark_jobs.lookup.reader import Reader
from spark_jobs.settings import PROJECT, Cluster, Settings

ROUNDS = 7
MESSAGES = 300
CLUSTER = "sandbox"
MAKE, PYTHON, MQADMIN = "make message", "python -m spark_jobs.lookup.command", "mqadmin queryMsgTraceById"
_TOOLS_SH = "-server -Xms1g -Xmx1g -Xmn256m -XX:MetaspaceSize=128m -XX:MaxMetaspaceSize=128m"


def ratio(home: Path, console: Console) -> float:
    """The seconds of `make message` over those of mqadmin, medians."""
    with tempfile.TemporaryDirectory(prefix="mqadmin-", dir=home) as scratch:
        folder = Path(scratch)
        with rocketmq(folder / "rocketmq", stop_in_order=False) as sandbox:
            run = generate(sandbox.namesrv, MESSAGES, folder / "traffic")
            cluster = Cluster(name=CLUSTER, namesrv=[sandbox.namesrv])
            environment = _environment(folder / "home", cluster)
            for job in (["extract", "--cluster", CLUSTER], ["merge"], ["marts"]):
                _run([sys.executable, "-m", f"spark_jobs.jobs.{job[0]}", *job[1:]], environment)
            messages = _messages(run)[-ROUNDS - 1 :]
            seconds = _race(messages, _commands(sandbox.namesrv, folder), environment)
        warm = _warm(Settings(home=folder / "home"), messages)
    for name, each in seconds.items():
        console.print(
            f"{name}: {statistics.median(each):.2f} s ({min(each):.2f} to {max(each):.2f}, {len(each)} rounds)"
        )
    console.print(f"the look-up alone, in a process that has the file open: {warm * 1000:.0f} ms")
    return statistics.median(seconds[MAKE]) / statistics.median(seconds[MQADMIN])


def _environment(home: Path, cluster: Cluster) -> dict[str, str]:
    return os.environ | {
        "TRACE_HOME": str(home),
        "TRACE_SETTINGS": str(PROJECT / "sandbox" / "demo.toml"),
        "TRACE_CLUSTERS": json.dumps([cluster.model_dump()]),
        "PYTHONPATH": str(PROJECT),
    }


def _messages(run: Path) -> list[str]:
    """The ids of the plain messages that were sent with a trace, in the order of their sends."""
    lines = [line for file in run.glob("*.jsonl") for line in file.read_text().splitlines()]
    sends = [event for event in map(json.loads, lines) if event["event"] == "send"]
    found = [s for s in sends if s["kind"] == "normal" and s["traced"] and s["trace_topic"] == TRACE_TOPIC]
    return [send["msg_id"] for send in sorted(found, key=lambda send: send["sent_at_ms"])]


def _commands(namesrv: str, folder: Path) -> dict[str, list[str]]:
    """The commands by name; the message id is their last word, or its end."""
    class_path = f"{jars.folder(NEWEST.ivy_file)}/*"
    files = [f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}"]
    mqadmin = [jars.java(), *_TOOLS_SH.split(), *files, "-cp", class_path]
    tool = "org.apache.rocketmq.tools.command.MQAdminStartup"
    return {
        MAKE: ["make", "--silent", "-C", str(PROJECT), "message", "ID="],
        PYTHON: [sys.executable, "-m", "spark_jobs.lookup.command", "message", "--id="],
        MQADMIN: [*mqadmin, tool, "queryMsgTraceById", "-n", namesrv, "-t", TRACE_TOPIC, "-i", ""],
    }


def _race(
    messages: list[str], commands: dict[str, list[str]], environment: dict[str, str]
) -> dict[str, list[float]]:
    """The seconds of each command; a message a round, and the first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn, msg_id in enumerate(messages):
        for name in list(commands)[:: 1 if turn % 2 else -1]:
            *command, last = commands[name]
            begin = time.perf_counter()
            output = _run([*command, last + msg_id], environment)
            if turn:
                seconds[name].append(time.perf_counter() - begin)
            assert msg_id in output or name == MQADMIN, output
            assert "Pub" in output or name != MQADMIN, output
    return seconds


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def _warm(settings: Settings, messages: list[str]) -> float:
    """The median seconds of a look-up in this process."""
    seconds = []
    with Reader.open(settings) as reader:
        for msg_id in messages:
            begin = time.perf_counter()
            look_up(reader, msg_id, "id")
            seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)
