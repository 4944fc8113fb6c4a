"""The Go client, `go_client/main.go`, in a process of its own (`tests/client_process.py`)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.client_process import ClientProcess, client_process

SOURCE = Path(__file__).parent / "go_client"
MODULE = "github.com/apache/rocketmq-client-go/v2"
# Go's own archive is in no path.
_GO = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


class MissingError(Exception):
    """Go, or the modules of the client, are missing: what to do."""


def release() -> str:
    """That of the client, as go.mod has it."""
    (line,) = [line for line in (SOURCE / "go.mod").read_text().splitlines() if MODULE in line]
    return line.rpartition(" v")[2]


def build(folder: Path) -> Path:
    """The program. Go fetches the modules of go.sum once, and keeps them and what it compiled.

    Raises:
        MissingError: Go is missing, or cannot fetch the modules.
    """
    if _GO is None:
        raise MissingError("install Go 1.21 or later: apt-get install golang-go, or https://go.dev/dl")
    fetched = _go(_GO, "list", "-deps", ".")
    if fetched.returncode != 0:
        raise MissingError(f"Go cannot fetch the modules of {SOURCE / 'go.sum'}: {fetched.stderr.strip()}")
    program = folder / "go_client"
    built = _go(_GO, "build", "-buildvcs=false", "-o", str(program), ".")
    assert built.returncode == 0, built.stderr
    return program


def _go(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)


@contextmanager
def go_process(program: Path, namesrv: str, folder: Path) -> Iterator[ClientProcess]:
    """The process, until the block ends."""
    with client_process([str(program), namesrv], folder / "go.log") as process:
        yield process
