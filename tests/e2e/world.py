"""A broker, the pipeline over it, and the commands of a user."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from deploy import show
from sandbox.broker import Sandbox
from sandbox.demo import CLUSTER
from sandbox.scenarios import TRACE_TOPICS
from spark_jobs.settings import PROJECT, Settings
from tests.records import Record, read_record


@dataclass
class World:
    """A sandbox, the settings of a pipeline over it, and the environment of its commands."""

    sandbox: Sandbox
    settings: Settings
    environment: dict[str, str]

    @property
    def traffic(self) -> Path:
        return self.settings.home / "sandbox" / "traffic"

    def record(self) -> Record:
        return read_record(self.traffic)

    def table(self, name: str, *columns: str) -> pa.Table:
        return show.rows(self.settings, name, *columns)


def records_by_type(world: World) -> dict[str, Counter[str]]:
    """By trace topic, as `Record.expected` has them."""
    found: dict[str, Counter[str]] = {}
    for row in world.table("events.trace_records", "trace_topic", "record_type").to_pylist():
        found.setdefault(row["trace_topic"], Counter())[row["record_type"]] += 1
    return found


def make(target: str, environment: dict[str, str], *variables: str) -> subprocess.CompletedProcess[str]:
    """Run a target of the Makefile as a user would, who has no settings but these variables."""
    inherited = {name: value for name, value in os.environ.items() if name != "TRACE_SETTINGS"}
    return subprocess.run(
        ["make", target, *variables], cwd=PROJECT, env=inherited | environment, capture_output=True, text=True
    )


def run_variables(world: World) -> list[str]:
    """What the owner of the cluster gives `make run`."""
    return [f"NAMESRV={world.sandbox.namesrv}", f"TOPIC={','.join(TRACE_TOPICS)}", f"CLUSTER={CLUSTER}"]
