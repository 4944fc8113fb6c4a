"""Control groups of Linux that limit the CPU time of processes: machines that are slower, but do not share their cores."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PERIOD_US = 100_000
_V1, _V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


class CpuLimitError(RuntimeError):
    """This machine does not permit control groups."""


@contextmanager
def limited(cores: float, count: int) -> Iterator[list[Path]]:
    """Control groups, each of whose processes together get at most so many cores; their processes must end within the block.

    Raises:
        CpuLimitError: the process is not root, or control groups are read-only.
    """
    quota = int(cores * PERIOD_US)
    values: dict[str, int | str] = {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": quota}
    root = _V1
    if (_V2 / "cgroup.controllers").exists():
        values, root = {"cpu.max": f"{quota} {PERIOD_US}"}, _V2
    name = f"trace-{uuid.uuid4().hex[:8]}"
    groups = [root / f"{name}-{number}" for number in range(count)]
    try:
        try:
            for group in groups:
                group.mkdir()
                for file, value in values.items():
                    (group / file).write_text(str(value))
        except OSError as error:
            raise CpuLimitError(
                f"workers of limited CPU time need root and writable control groups: {error}"
            ) from error
        yield groups
    finally:
        for group in groups:
            if group.exists():
                os.rmdir(group)


def add(group: Path, pid: int) -> None:
    """Put a process and its later children into a control group."""
    (group / "cgroup.procs").write_text(str(pid))
