"""Free loopback ports, saved so that a folder keeps its addresses."""

from __future__ import annotations

import json
import logging
import random
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

log = logging.getLogger(__name__)

# Below the ephemeral port range of Linux and macOS.
LOWEST, HIGHEST = 21000, 32000


@dataclass(frozen=True)
class Ports:
    """The ports of one sandbox.

    The broker uses three ports: `broker`, `broker` - 2 (the "VIP" channel, always derived) and
    `broker` + 1 (replication to slaves).
    """

    namesrv: int
    broker: int

    def in_use(self) -> list[int]:
        """The ports that are in use, of the four."""
        return [p for p in (self.namesrv, self.broker, self.broker - 2, self.broker + 1) if not _free(p)]


def _free(port: int) -> bool:
    for host in ("127.0.0.1", ""):  # the replication port binds to every address
        with socket.socket() as probe:
            # As in Java: connections of an earlier run in TIME_WAIT do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True


def ports_of(folder: Path) -> Ports:
    """The folder's ports: those of its last start if all are free, otherwise new ones.

    Raises:
        OSError: no free ports were found.
    """
    file = folder / "ports.json"
    if file.exists():
        remembered = Ports(**json.loads(file.read_text()))
        taken = remembered.in_use()
        if not taken:
            return remembered
        log.warning("port %s of %s is in use by another program: using new ports", taken[0], folder)
    for _ in range(200):
        start = random.randrange(LOWEST, HIGHEST)
        ports = Ports(namesrv=start, broker=start + 3)
        if not ports.in_use():
            file.write_text(json.dumps(asdict(ports)))
            return ports
    raise OSError(f"found no four free ports between {LOWEST} and {HIGHEST} on loopback")
