"""A trace topic on a real broker, the tables that the jobs fill from it, and what tells the two apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import And, EqualTo, In
from pyspark.sql import SparkSession

from deploy import child_process
from sandbox import registration
from sandbox.broker import Sandbox
from spark_jobs.jobs import advance_ingest, extract, ingest, marts, merge, replay
from spark_jobs.lake import catalog
from spark_jobs.lake.tables import EVENTS, RAW, Table
from spark_jobs.settings import PROJECT, Cluster, Settings
from tests.client_process import ClientProcess

CLUSTER = "faults"
SECONDS = 240
RECORD_KEY = ("trace_topic", "broker", "queue_id", "queue_offset")
QueueLocation = tuple[str, str, int, int]


@dataclass(frozen=True)
class Difference:
    """The tables against the broker; `messages` are the broker's, the other numbers should be 0."""

    messages: int
    lost: int
    doubled: int
    wrong: int


@dataclass(frozen=True)
class Run:
    """A job as a process: its exit code and all that it wrote."""

    code: int
    output: str


@dataclass(frozen=True)
class Started:
    """A job as a process that runs."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, text: str) -> None:
        """Until the job has written it."""
        until = time.monotonic() + SECONDS
        while text not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.02)

    def finished(self, seconds: float = SECONDS) -> Run:
        """Wait for the end of the process; it is ended if it takes longer, and the test fails."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            child_process.end(self.process, 1.0)
            pytest.fail(f"the job did not end within {seconds} s:\n{self.log.read_text()}")
        return Run(self.process.returncode, self.log.read_text())


@dataclass
class World:
    """Topics of one cluster, and the jobs over them, in the test's own session and as processes."""

    spark: SparkSession
    settings: Settings
    sandbox: Sandbox
    java: ClientProcess
    topics: list[str]
    extra: dict[str, str] = field(default_factory=dict)
    epoch: int = 0
    messages: dict[QueueLocation, tuple[int, int, int]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(0, 10**9, 10**4)))

    @property
    def environment(self) -> dict[str, str]:
        """What a process of a job needs, except the machine's own variables."""
        cluster = Cluster(name=CLUSTER, namesrv=[self.sandbox.namesrv], trace_topics=self.topics)
        # A killed process leaves its temporary files behind: not in the machine's own folder.
        temporary = str(self.sandbox.folder / "tmp")
        spark_conf = dict(self.settings.spark.conf)
        spark_conf["spark.driver.extraJavaOptions"] += f" -Djava.io.tmpdir={temporary}"
        spark_conf["spark.ui.liveUpdate.period"] = "0"  # the status tracker tells of each task at once
        return {
            "TMPDIR": temporary,
            "TRACE_HOME": str(self.settings.home),
            "TRACE_CLUSTERS": json.dumps([cluster.model_dump(exclude_none=True)]),
            "TRACE_SPARK__CONF": json.dumps(spark_conf),
            # Several tasks for a few thousand messages, so that there is a middle.
            "TRACE_EXTRACT__MAX_OFFSETS_PER_PARTITION": "250",
            "PYTHONPATH": str(PROJECT),
            **self.extra,
        }

    def make_topics(self, queues: int = 2) -> None:
        for topic in self.topics:
            self.make_topic(topic, queues)

    def make_topic(self, topic: str, queues: int = 2, sandbox: Sandbox | None = None) -> None:
        on = sandbox or self.sandbox
        self.java("make_topic", topic=topic, address=on.broker_address, queues=queues)
        self.wait_for_route(topic, on)

    def wait_for_route(self, topic: str, sandbox: Sandbox) -> None:
        """Until the nameserver knows that the broker has the topic."""
        until = time.monotonic() + 30
        while not registration.serves(self.sandbox.namesrv, topic, sandbox.broker_address):
            assert time.monotonic() < until, f"{topic} is not in the route of {sandbox.broker_name}"
            registration.register_now(sandbox.broker_address)
            time.sleep(0.1)

    def write(self, count: int, topic: str | None = None, queues: int = 2, broker: str | None = None) -> None:
        """Let the Java client send `count` new messages to a topic, shared among its queues.

        A broker acknowledges a message before its queue has it: this returns when the queues have them all.
        """
        topic, broker = topic or self.topics[0], broker or self.sandbox.broker_name
        for queue in range(queues):
            end = self._end(topic, broker, queue) + count // queues
            self.java(
                "produce",
                topic=topic,
                broker=broker,
                queue=queue,
                first=next(self._numbers),
                count=count // queues,
            )
            until = time.monotonic() + 30
            while self._end(topic, broker, queue) < end:
                assert time.monotonic() < until, f"{topic}/{broker}/{queue} does not reach {end}"
                time.sleep(0.05)

    def _end(self, topic: str, broker: str, queue: int) -> int:
        """The offset that the queue's next message will get."""
        bounds = self.java("bounds", topic=topic)
        return next((after for b, q, _, after in bounds if (b, q) == (broker, queue)), 0)

    def extract(self, run_id: str = "recovery") -> int:
        """The job, in this session; returns its exit code."""
        return self._here(extract.main, ["--cluster", CLUSTER, "--run-id", run_id])

    def merge(self, run_id: str = "recovery") -> int:
        return self._here(merge.main, ["--run-id", run_id])

    def ingest(self, *arguments: str, run_id: str = "recovery") -> int:
        """The job, in this session."""
        return self._here(ingest.main, [*arguments, "--run-id", run_id])

    def advance_ingest(self) -> int:
        """The job without Spark, in this process."""
        return self._here(advance_ingest.main, [])

    def marts(self, run_id: str = "recovery") -> int:
        return self._here(marts.main, ["--run-id", run_id])

    def replay(self, *arguments: str, run_id: str = "recovery") -> int:
        return self._here(replay.main, [*arguments, "--run-id", run_id])

    def _here(self, job: Any, arguments: list[str]) -> int:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            return job(arguments)

    def start(self, module: str, *arguments: str, **environment: str) -> Started:
        """A process that cannot outlive this one."""
        with tempfile.NamedTemporaryFile(dir=self.sandbox.folder / "tmp", delete=False) as log:
            process = child_process.spawn(
                [sys.executable, "-m", module, *arguments],
                env={**os.environ, **self.environment, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return Started(process, Path(log.name))

    def run(self, module: str, *arguments: str, **environment: str) -> Run:
        return self.start(module, *arguments, **environment).finished()

    def head(self, table: Table) -> int | None:
        return catalog.head(self.settings, table)

    def compare(self, *tables: Table) -> Difference:
        """Every message of the broker, and every record in them, against the rows of the tables."""
        self.look_at_the_broker()
        return self.compare_with_known(*tables)

    def compare_with_known(self, *tables: Table) -> Difference:
        """As `compare`, with the messages that were in the broker when it was looked at last."""
        lost = doubled = wrong = 0
        if RAW in tables:
            columns = ("body_crc", "body", "min_records")
            rows = [(row[:4], *row[4:]) for row in self.rows(RAW, *RECORD_KEY, *columns)]
            found = Counter(place for place, *_ in rows)
            lost += len(self.messages.keys() - found.keys())
            doubled += sum(found.values()) - len(found)
            wrong += len(found.keys() - self.messages.keys())
            for place, stored_crc, body, pieces in rows:
                sent = self.messages.get(place)
                wrong += sent is not None and sent != (stored_crc, zlib.crc32(body), pieces)
        if EVENTS in tables:
            records = self.rows(EVENTS, *RECORD_KEY, "record_index")
            counts = Counter(record[:4] for record in records)
            for place, (_, _, pieces) in self.messages.items():
                lost += max(0, pieces - counts[place])
                doubled += max(0, counts[place] - pieces)
            doubled += len(records) - len(set(records))
            wrong += len(counts.keys() - self.messages.keys())
        return Difference(len(self.messages), lost, doubled, wrong)

    def rows(self, table: Table, *columns: str) -> list[tuple[Any, ...]]:
        """The columns of this world's rows on main, read without Spark."""
        mine = And(In("trace_topic", self.topics), EqualTo("epoch", self.epoch))  # type: ignore[call-arg]
        scan = catalog.lake(self.settings).load_table(table.name).scan(mine, selected_fields=columns)
        return list(zip(*(column.to_pylist() for column in scan.to_arrow().select(columns)), strict=True))

    def look_at_the_broker(self) -> None:
        """Read what is new there; what it has deleted since stays known."""
        ends = Counter[tuple[str, str, int]]()
        for topic, broker, queue, offset in self.messages:
            ends[topic, broker, queue] = max(ends[topic, broker, queue], offset + 1)
        for topic in self.topics:
            for broker, queue, first, after in self.java("bounds", topic=topic):
                start = max(first, ends[topic, broker, queue])
                for offset, *sent in self.java(
                    "read", topic=topic, broker=broker, queue=queue, start=start, end=after
                ):
                    self.messages[topic, broker, queue, offset] = tuple(sent)
