"""Releases of the official Java client for the sandbox's applications, and their differences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spark_jobs.lake import jars

# The broker's own jars are left out: the client would take the broker's logging settings.
_SERVER_JARS = ("rocketmq-broker", "rocketmq-namesrv", "rocketmq-controller", "rocketmq-tiered-store")


@dataclass(frozen=True)
class Release:
    """A release, and its properties that matter to an application.

    Attributes:
        version: in Maven.
        ivy_file: defines its jars.
        protocol: package of the classes of the protocol, below org.apache.rocketmq.
        traces_by_setter: tracing is switched on by `setEnableTrace`, not in the constructor.
        traces_transactions: a transactional producer can be traced, and writes an EndTransaction.
        needs_region: consumer records of a call whose last message has no region are dropped.
        one_trace_producer: every client of a process traces through a producer of one name, so only the first can.
    """

    version: str
    ivy_file: Path
    protocol: str
    traces_by_setter: bool
    traces_transactions: bool
    needs_region: bool
    one_trace_producer: bool = False

    def jars(self) -> list[Path]:
        """Raises FileNotFoundError: they were not fetched yet."""
        return [jar for jar in jars.jars(self.ivy_file) if not jar.name.startswith(_SERVER_JARS)]


def _ivy_file(version: str) -> Path:
    return Path(__file__).parent / "clients" / version / "ivy.xml"


NEWEST = Release("5.5.0", Path(__file__).with_name("ivy.xml"), "remoting.protocol", True, True, True)
OLDER = (
    Release("4.9.8", _ivy_file("4.9.8"), "common.protocol", False, True, False),
    Release("4.5.2", _ivy_file("4.5.2"), "common.protocol", False, False, False, one_trace_producer=True),
)
BY_VERSION = {release.version: release for release in (NEWEST, *OLDER)}
