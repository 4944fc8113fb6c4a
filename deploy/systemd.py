"""`make systemd`: write a systemd unit that starts what `make up` starts, after a reboot too; of the user, or of the system.

python -m deploy.systemd                       # ~/.config/systemd/user/rocketmq-trace-warehouse.service
sudo .venv/bin/python -m deploy.systemd --system --user trace      # /etc/systemd/system/…
"""

from __future__ import annotations

import argparse
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from deploy.up import DOWN_SECONDS, State
from spark_jobs.settings import NO_CLUSTER, PROJECT, Settings, load_settings

NAME = "rocketmq-trace-warehouse.service"
SYSTEM_FOLDER = Path("/etc/systemd/system")
_console = Console(highlight=False, soft_wrap=True)


def unit(settings: Settings, port: int, dashboards: int | None, user: str | None) -> str:
    """The text of the unit.

    Args:
        settings: `TRACE_HOME`, and the file that the variable `TRACE_SETTINGS` names.
        port: of Airflow's web server.
        dashboards: port of Superset; None: it does not run.
        user: whose unit of the system it is; None for a unit of the user.
    """
    home = settings.home.absolute()
    command = [sys.executable, "-m", "deploy.up", "serve", "--port", str(port)]
    if dashboards:
        command += ["--dashboards", "--dashboards-port", str(dashboards)]
    variables = {"TRACE_HOME": str(home)}
    if file := os.environ.get("TRACE_SETTINGS"):
        variables["TRACE_SETTINGS"] = str(Path(file).absolute())
    log = State(settings.model_copy(update={"home": home})).log
    lines = [
        "[Unit]",
        "Description=RocketMQ trace warehouse: Airflow and a Spark driver",
        "Wants=network-online.target",
        "After=network-online.target",
        "# It is started again whatever happens; its own alerts say what is wrong.",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        *([f"User={user}"] if user else []),
        f"WorkingDirectory={_escaped(str(PROJECT))}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in variables.items()),
        "# Secrets, one NAME=value a line, readable by the owner only: of clusters (credentials_env) and of alert sinks.",
        f"EnvironmentFile=-{_escaped(str(home / 'environment'))}",
        f"ExecStart={' '.join(_quoted(word).replace('$', '$$') for word in command)}",
        f"StandardOutput=append:{_escaped(str(log))}",
        f"StandardError=append:{_escaped(str(log))}",
        "Restart=always",
        "RestartSec=10",
        "# The supervisor ends its components in order.",
        "KillMode=mixed",
        f"TimeoutStopSec={DOWN_SECONDS:.0f}",
        "UMask=0077",
        "",
        "[Install]",
        f"WantedBy={'multi-user.target' if user else 'default.target'}",
        "",
    ]
    return "\n".join(lines)


def verify(file: Path, of_user: bool) -> str:
    """What `systemd-analyze verify` says of a unit; empty if it finds nothing, or is not installed."""
    program = shutil.which("systemd-analyze")
    if program is None:
        return ""
    # The manager of a user wants a folder for its sockets.
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [program, *(["--user"] if of_user else []), "verify", str(file)],
            env={"XDG_RUNTIME_DIR": folder} | os.environ,
            capture_output=True,
            text=True,
        )
    return (done.stdout + done.stderr).strip()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--system", action="store_true", help="a unit of the system, which root writes")
    parser.add_argument("--user", help="with --system: who runs it and owns TRACE_HOME")
    parser.add_argument(
        "--folder", type=Path, help="where to write it, by default where systemd looks for it"
    )
    parser.add_argument("--port", type=int, default=8080, help="of Airflow's web server, on loopback")
    parser.add_argument("--dashboards", action="store_true", help="run Superset too")
    parser.add_argument("--dashboards-port", type=int, default=8088, help="of Superset, on loopback")
    args = parser.parse_args(argv)
    if args.system != bool(args.user):
        parser.error("--system and --user go together")
    if args.user and args.user not in {each.pw_name for each in pwd.getpwall()}:
        parser.error(f"there is no user {args.user}")
    settings = load_settings()
    if not settings.clusters:
        parser.error(NO_CLUSTER)
    folder = args.folder or (SYSTEM_FOLDER if args.system else _user_folder())
    text = unit(settings, args.port, args.dashboards_port if args.dashboards else None, args.user)
    file = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _make_folder(State(settings).log.parent, args.user)  # systemd creates no folder
        file.write_text(text)
    except PermissionError as error:
        _console.print(f"failed: {error}: run it with sudo, or give another --folder", markup=False)
        return 1
    _console.print(f"wrote {file}", markup=False)
    if wrong := verify(file, of_user=not args.system):
        _console.print(f"failed: systemd-analyze verify:\n{wrong}", markup=False)
        return 1
    systemctl = "systemctl" if args.system else "systemctl --user"
    _console.print(
        f"next:\n  make down\n  {systemctl} daemon-reload\n  {systemctl} enable --now {NAME}", markup=False
    )
    if not args.system:
        _console.print(
            "  loginctl enable-linger        # it starts with the machine, not with your login", markup=False
        )
    return 0


def _make_folder(folder: Path, user: str | None) -> None:
    """Create a folder below `TRACE_HOME`; what root creates belongs to the user of the unit."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=0o700)
            if user:
                shutil.chown(each, user)


def _user_folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "systemd" / "user"


def _escaped(text: str) -> str:
    """A value without specifiers."""
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    """A word of a value that is split into words."""
    escaped = _escaped(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


if __name__ == "__main__":
    sys.exit(main())
