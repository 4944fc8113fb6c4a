"""The network between the servers of a test and the Spark workers: a bridge and one network namespace per worker."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """Addresses, and how to start a process that has one of them.

    Attributes:
        host: the address of the servers and of drivers.
        workers: one address per worker.
        namespaces: one per worker; empty if this process may create none. Then all addresses are on loopback.
    """

    host: str
    workers: list[str]
    namespaces: list[str]

    def within(self, number: int) -> list[str]:
        """The arguments that start a command in the namespaces of a worker: its own network, and mounts of its own."""
        if not self.namespaces:
            return []
        return ["ip", "netns", "exec", self.namespaces[number], "unshare", "--mount"]


@contextmanager
def network(workers: int) -> Iterator[Network]:
    """Connect so many network namespaces within the block, if this process runs as root with the right to do so.

    Otherwise the workers have different loopback addresses: executors at the same address would read each other's
    shuffle files from the disk.
    """
    with ExitStack() as stack:
        number = _new_bridge()
        if number is None:
            yield Network("127.0.0.1", [f"127.0.0.{each + 2}" for each in range(workers)], [])
            return
        bridge, subnet = f"trace{number}", f"10.231.{number}"
        stack.callback(_ip, "link", "delete", bridge)
        host = f"{subnet}.1"
        _must("addr", "add", f"{host}/24", "dev", bridge)
        _must("link", "set", bridge, "up")
        names = [f"{bridge}-{each}" for each in range(workers)]
        addresses = [f"{subnet}.{each + 2}" for each in range(workers)]
        for name, address in zip(names, addresses, strict=True):
            _must("netns", "add", name)
            stack.callback(_ip, "netns", "delete", name)
            _must("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _must("link", "set", name, "master", bridge, "up")
            _must("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _must("-n", name, "link", "set", device, "up")
        yield Network(host, addresses, names)


def _new_bridge() -> int | None:
    """The number of a new bridge; None if this process may create none."""
    if os.geteuid() != 0:
        return None
    for number in random.sample(range(256), 10):  # of a test that was killed one may be left
        if _ip("link", "add", f"trace{number}", "type", "bridge"):
            return number
    return None


def _ip(*arguments: str) -> bool:
    try:
        return subprocess.run(["ip", *arguments], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _must(*arguments: str) -> None:
    assert _ip(*arguments), f"ip {' '.join(arguments)} failed"
