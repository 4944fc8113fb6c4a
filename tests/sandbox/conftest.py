import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandbox import admin, scenarios
from sandbox.broker import Sandbox, rocketmq
from sandbox.traffic import generate
from tests import official_client
from tests.records import Record, read_record

# With consume timeouts, which take a minute more.
FULL = bool(os.environ.get("TRACE_TESTS_FULL"))


@dataclass
class Traffic:
    """A broker, two runs of traffic on it, and its trace as the official client reads it back."""

    sandbox: Sandbox
    record_folder: Path
    first: Record
    second: Record
    both: Record
    messages: list[dict[str, Any]]

    def records(self, record_type: str) -> list[list[str]]:
        """The fields of all trace records of a type, by a plain split."""
        return [
            record.split("\x01")
            for message in self.messages
            for record in message["body"].split("\x02")
            if record.startswith(f"{record_type}\x01")
        ]


@pytest.fixture(scope="package")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    folder = tmp_path_factory.mktemp("sandbox")
    record_folder = folder / "record"
    with rocketmq(folder, stop_in_order=False) as sandbox:
        first = generate(
            sandbox.namesrv, 300, record_folder, full=FULL, python=official_client.package_or_none()
        )
        second = generate(sandbox.namesrv, 300, record_folder)
        _, messages = admin.trace_messages(sandbox.namesrv, scenarios.TRACE_TOPICS)
        yield Traffic(
            sandbox,
            record_folder,
            read_record(first),
            read_record(second),
            read_record(record_folder),
            messages,
        )
