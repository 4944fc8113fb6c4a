"""A Postgres server, as a database of catalogs."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox.server import SandboxError


def postgres_programs() -> Path | None:
    """Where Postgres's server programs are; Debian has them in no path."""
    found = [Path(name).resolve().parent for name in [shutil.which("initdb")] if name]
    return next(iter([*found, *sorted(Path("/usr/lib/postgresql").glob("*/bin"))]), None)


@contextmanager
def running_postgres(max_connections: int = 100, host: str = "127.0.0.1") -> Iterator[int]:
    """Run a Postgres and yield its port; user `postgres` has no password.

    Raises:
        SandboxError: Postgres is not installed.
    """
    programs = postgres_programs()
    if programs is None:
        raise SandboxError("Postgres is missing: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # its own user must reach it
    with socket.create_server((host, 0)) as free:
        port = free.getsockname()[1]
    user: Any = {}
    if Path("/proc/self").stat().st_uid == 0:  # it refuses to run as root
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        shutil.chown(folder, "postgres", "postgres")
    subprocess.run(
        [programs / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=folder,
        **user,
    )
    with (folder / "data" / "pg_hba.conf").open("a") as access:
        access.write(f"host all all {host}/32 trust\n")  # only from this machine
    options = f"-p {port} -c listen_addresses={host} -c unix_socket_directories= -c fsync=off "
    options += f"-c max_connections={max_connections} -c superuser_reserved_connections=0"
    control: list[str | Path] = [programs / "pg_ctl", "-D", folder / "data", "-w"]
    subprocess.run(
        [*control, "-l", folder / "log", "-o", options, "start"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        **user,
    )
    try:
        yield port
    finally:
        subprocess.run(
            [*control, "-m", "immediate", "stop"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            **user,
        )
        shutil.rmtree(folder)
