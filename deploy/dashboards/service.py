"""`make dashboards`: Superset with the dashboards of `dashboards/`, on loopback, until Ctrl-C.

Superset has its own environment (`.venv-dashboards`), as its libraries conflict with Airflow's. Its state is below
`$TRACE_HOME/superset`. The files of `dashboards/` are imported when they have changed since the last import.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from rich.console import Console

from deploy import child_process
from deploy.dashboards import assets
from deploy.dashboards.bundle import bundle
from deploy.dashboards.roles import read_roles
from deploy.secret_file import secret
from spark_jobs.process.home import keep_private
from spark_jobs.serving import files
from spark_jobs.settings import PROJECT, Settings, load_settings

ADMIN = "admin"
PYTHON = PROJECT / ".venv-dashboards" / "bin" / "python"
SCRIPTS = Path(__file__).parent / "superset"
LOOPBACK = "127.0.0.1"
START_SECONDS = 120.0
WAIT_SECONDS = 2.0
# Less than the supervisor of `make up` allows.
STOP_SECONDS = 5.0
_console = Console(stderr=True, highlight=False, soft_wrap=True)


class DashboardsError(RuntimeError):
    """Superset cannot be started; the message says why and what to do."""


class Superset:
    """The Superset of a `TRACE_HOME`.

    Attributes:
        home: folder of its state.
        password_file: the password of `ADMIN`.
        log: of its commands and its server.
    """

    def __init__(self, settings: Settings):
        self.home = settings.home / "superset"
        self.password_file = self.home / "admin-password"
        self.log = self.home / "superset.log"
        self._data = files.folder(settings) / files.CURRENT / files.DASHBOARDS
        self._imported = self.home / "imported"

    @property
    def has_data(self) -> bool:
        """Whether the marts were published."""
        return self._data.exists()

    @property
    def is_new(self) -> bool:
        """Whether its database has yet to be created."""
        return not self._imported.exists()

    def environment(self) -> dict[str, str]:
        """The environment of Superset's processes; without variables of Airflow and of secrets of clusters."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
        }
        return kept | {
            "SUPERSET_CONFIG_PATH": str(SCRIPTS / "superset_config.py"),
            "SUPERSET_HOME": str(self.home),
            "PYTHONPATH": str(SCRIPTS),
            "TRACE_DASHBOARDS_HOME": str(self.home),
            "TRACE_DASHBOARDS_DATA": str(self._data),
            "TRACE_DASHBOARDS_SECRET_KEY": secret(self.home / "secret-key", secrets.token_hex(32)),
            # Superset's own telemetry.
            "SCARF_ANALYTICS": "false",
        }

    def prepare(self) -> None:
        """Bring its database to the state of the files: schema, admin, roles, objects. Nothing to do takes no time.

        Raises:
            DashboardsError: there is no serving file yet, or Superset refused something; the log has its output.
            assets.AssetError: a file of `dashboards/` is wrong.
        """
        if not self.has_data:
            raise DashboardsError(
                f"no {self._data} yet: run `make demo`, `make run`, or wait for trace_marts"
            )
        self.home.mkdir(parents=True, exist_ok=True)
        secret(self.password_file, secrets.token_urlsafe(16))
        contents = bundle(assets.read(), "duckdb:///dashboards.duckdb")
        roles = read_roles()
        digest = hashlib.sha256(
            json.dumps([contents, roles, _text_of_scripts(), (PROJECT / LOCK).read_text()]).encode()
        ).hexdigest()
        if self._imported.exists() and self._imported.read_text() == digest:
            return
        folder = self.home / "bundle"
        _write(folder, contents)
        plan = {
            "admin": ADMIN,
            "password_file": str(self.password_file),
            "bundle": str(folder),
            "roles": roles,
        }
        plan_file = self.home / "plan.json"
        plan_file.write_text(json.dumps(plan))
        self.run("setup_superset.py", str(plan_file))
        self._imported.write_text(digest)

    def run(self, script: str, *arguments: str) -> None:
        """Run a script of `superset/` in Superset's environment; its output goes to the log.

        Raises:
            DashboardsError: it failed; the message has the end of its output.
        """
        with self.log.open("a") as out:
            start = out.tell()
            command = [str(PYTHON), str(SCRIPTS / script), *arguments]
            done = subprocess.run(
                command, env=self.environment(), cwd=self.home, stdout=out, stderr=out, check=False
            )
        if done.returncode:
            lines = self.log.read_bytes()[start:].decode(errors="replace").splitlines()[-5:]
            raise DashboardsError("\n".join([f"{script} of Superset failed (log: {self.log}):", *lines]))

    def command(self, port: int, host: str = LOOPBACK) -> tuple[str, ...]:
        """The command of its server; `host` is the address that it binds."""
        return (
            *(str(PYTHON), "-m", "gunicorn", "--workers", "1", "--worker-class", "gthread", "--threads", "8"),
            *("--timeout", "120", "--bind", f"{host}:{port}", "superset.app:create_app()"),
        )


LOCK = "dashboards/requirements.lock"


def url_of(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def free_port() -> int:
    """A port of loopback that nothing uses."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def is_healthy(port: int) -> bool:
    """Whether the server answers."""
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().read() == b"OK"
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _text_of_scripts() -> str:
    return "".join(file.read_text() for file in sorted(SCRIPTS.glob("*.py")))


def _write(folder: Path, contents: dict[str, str]) -> None:
    for old in folder.rglob("*.yaml"):
        old.unlink()
    for path, text in contents.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def answers(settings: Settings, port: int) -> bool | None:
    """Whether the server answers, or waits for the first publication of the marts; None while it creates its database."""
    superset = Superset(settings)
    if superset.has_data and superset.is_new:
        return None
    return not superset.has_data or is_healthy(port)


def serve(settings: Settings, port: int, wait: bool, host: str = LOOPBACK) -> int:
    """Prepare Superset, run its server until Ctrl-C, and return an exit code.

    Args:
        settings: the lake.
        port: of the server.
        wait: as a component of `make up`: wait for the first publication of the marts instead of failing, and do not show
            the new password.
        host: the address that the server binds.
    """
    superset = Superset(settings)
    while wait and not superset.has_data:
        time.sleep(WAIT_SECONDS)
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise DashboardsError(
            f"port {port} of {host} cannot be used: {error}. Use another one: DASHBOARDS_PORT=…"
        ) from None
    # Under `make up` the output is a log, where a password does not belong.
    shows_password = not superset.password_file.exists() and not wait
    started = time.monotonic()
    _console.print(f"preparing Superset in {superset.home} (the first time takes about a minute)")
    superset.prepare()
    with running(superset, port, host) as process:
        seconds = time.monotonic() - started
        _console.print(f"dashboards: {url_of(port)}/ (ready after {seconds:.0f} s)")
        password = f": {superset.password_file.read_text()}" if shows_password else ""
        _console.print(f"log in as {ADMIN} with the password in {superset.password_file}{password}")
        _console.print(f"log: {superset.log}; Ctrl-C stops it")
        return process.wait()


@contextmanager
def running(superset: Superset, port: int, host: str = LOOPBACK) -> Iterator[subprocess.Popen[Any]]:
    """The server of a Superset that was prepared; it answers, and is stopped at the end.

    Raises:
        DashboardsError: it did not start.
    """
    with superset.log.open("a") as out:
        process = child_process.spawn(
            superset.command(port, host),
            env=superset.environment(),
            cwd=superset.home,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        until = time.monotonic() + START_SECONDS
        while not is_healthy(port):
            if process.poll() is not None or time.monotonic() > until:
                raise DashboardsError(f"Superset did not start: see {superset.log}")
            time.sleep(0.3)
        yield process
    finally:
        child_process.end(process, STOP_SECONDS)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8088, help="of Superset's web server")
    parser.add_argument("--host", default=LOOPBACK, help="address that it binds; 0.0.0.0 in a container")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for the first publication of the marts, and show no password",
    )
    args = parser.parse_args(argv)
    settings = load_settings()
    keep_private(settings.home)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        return serve(settings, args.port, args.wait, args.host)
    except (DashboardsError, assets.AssetError) as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # Stopped on purpose: for any other code than 0 make prints an error.
        _console.print("stopped")
        return 0


if __name__ == "__main__":
    sys.exit(main())
