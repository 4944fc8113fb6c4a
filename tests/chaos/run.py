"""`python -m tests.chaos.run --seconds 3600 [--seed N] [--factor 5]`: faults at random in a running `make up`, and their judge.

All of `make up` runs beside a real broker with traffic, in a mount namespace in which `TRACE_HOME` is a small file system.
Intervals and limits are divided by a factor, so that an hour has long faults of each kind. The log of the faults and the broker's
offsets are the judge. Exits with 1 if a message was lost or is there twice, if alerts are wrong, or if something is left behind.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from deploy.home_lock import lock_file
from deploy.up import State
from sandbox import admin, steady
from sandbox.broker import TRACE_TOPIC, rocketmq
from sandbox.proof import proof
from spark_jobs.process.file_lock import holder, processes_with
from spark_jobs.settings import PROJECT, Cluster, Settings, load_settings
from tests.chaos.faults import World
from tests.chaos.judge import Happened, Shown, problems
from tests.chaos.plan import Planned, drawn, kinds, pause
from tests.chaos.sinks import Observer, sinks
from tests.checks.loopback import BINARY, alertmanager

# Starting everything, and reading the rest at the end, of the seconds that are asked for.
OVERHEAD_SECONDS = 400
HOME_MB, RATE = 3000, 5
CLUSTER = "chaos"
_console = Console(width=150, highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--factor", type=float, default=5, help="intervals and limits are divided by it")
    parser.add_argument("--only", choices=[kind.name for kind in kinds(1)], help="faults of this kind alone")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which(BINARY):
        sys.exit(f"the chaos run needs root, unshare and {BINARY}: it fills a file system of its own")
    if not args.inside:
        command = [sys.executable, "-m", "tests.chaos.run", "--inside", f"--seconds={args.seconds}"]
        command += [f"--seed={args.seed}", f"--factor={args.factor}"]
        command += [f"--only={args.only}"] if args.only else []
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", *command], cwd=PROJECT
        ).returncode
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    interval = 300 / args.factor
    plan = drawn(args.seed, args.seconds - OVERHEAD_SECONDS, args.factor, interval, args.only)
    long = sum(each.is_long for each in plan)
    _console.print(
        f"seed {args.seed}; intervals and limits are divided by {args.factor:g}: the watchdog runs every {interval:.0f} s; "
        f"{long} faults longer than their limit, {len(plan) - long} shorter ones"
    )
    home = load_settings().home
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="chaos-", dir=home) as scratch:
        return Chaos(Path(scratch), args.factor, interval, args.seed).run(plan)


class Chaos:
    """A run: everything that it starts ends with it."""

    def __init__(self, folder: Path, factor: float, interval: float, seed: int):
        self._folder, self._factor, self._interval = folder, factor, interval
        self._dice = random.Random(seed)
        self._began = time.monotonic()
        self._faults: list[Happened] = []

    def run(self, plan: list[Planned]) -> int:
        home = self._folder / "home"
        home.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={HOME_MB}m", "tmpfs", str(home)], check=True)
        wrong: list[str] = []
        with ExitStack() as stack:
            stack.callback(subprocess.run, ["umount", "--lazy", str(home)], check=True)
            found = stack.enter_context(sinks())
            url = stack.enter_context(alertmanager(self._folder / "alertmanager", found.address, "1m"))
            sandbox = stack.enter_context(rocketmq(self._folder / "rocketmq", stop_in_order=False))
            cluster = Cluster(name=CLUSTER, namesrv=[sandbox.namesrv])
            environment = self._environment(home, cluster, url, found.address)
            os.environ |= environment
            settings = Settings()
            clients = stack.enter_context(
                steady.traffic(sandbox.namesrv, CLUSTER, RATE, self._folder / "clients")
            )
            stack.callback(self._down, settings)
            self._up(settings)
            self._say("all components answer")
            time.sleep(2 * self._interval)  # the first publication
            observer = Observer(url, self._began)
            stack.callback(observer.close)
            self._do(plan, World(settings, sandbox, found, self._dice))
            time.sleep(2 * self._interval)
            clients.terminate()
            clients.wait(60)
            wrong += self._lost(settings, sandbox.namesrv)
            alerts = observer.alerts()
            wrong += problems(self._faults, alerts, self._interval)
            self._show(alerts)
            wrong += self._down(settings)
            if wrong:
                self._keep_logs(home)
        wrong += self._left()
        for line in wrong:
            _console.print(f"[bold red]wrong[/] {line}")
        _console.print(f"{len(wrong)} problems; {time.monotonic() - self._began:.0f} s")
        return 1 if wrong else 0

    def _environment(self, home: Path, cluster: Cluster, alertmanager: str, receiver: str) -> dict[str, str]:
        factor = self._factor
        minutes = {
            **{"ingest_silent": 20, "marts_silent": 45, "freshness_raw": 30},
            **{"freshness_events": 30, "freshness_marts": 60},
        }
        return {
            "TRACE_HOME": str(home),
            "PYTHONPATH": str(PROJECT),
            "TRACE_CLUSTERS": json.dumps([cluster.model_dump(exclude_none=True)]),
            "TRACE_ALERTS__INTERVAL_SECONDS": f"{self._interval:.0f}",
            "TRACE_ALERTS__ALERTMANAGER": json.dumps([alertmanager]),
            "TRACE_ALERTS__APPRISE": json.dumps({"pipeline": [f"json://{receiver}/chat"]}),
            "TRACE_ALERTS__HEARTBEAT_URL": f"http://{receiver}/heartbeat",
            "TRACE_SCHEDULES__INGEST": f"*/{max(1, round(5 / factor))} * * * *",  # not below a minute
            "TRACE_SCHEDULES__MARTS": f"*/{max(1, round(15 / factor))} * * * *",
            **{
                f"TRACE_CHECKS__{name.upper()}_MINUTES": f"{each / factor:.2f}"
                for name, each in minutes.items()
            },
        }

    def _up(self, settings: Settings) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        log = (self._folder / "serve.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.serve", str(port), str(self._factor)],
            cwd=PROJECT,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        while not State(settings).read().get("ready"):
            if process.poll() is not None:
                sys.exit((self._folder / "serve.log").read_text()[-3000:])
            time.sleep(0.5)

    def _do(self, plan: list[Planned], world: World) -> None:
        for planned in plan:
            begin = self._now()
            with world.fault(planned.kind.name, planned.is_long) as what:
                length = "longer than its limit" if planned.is_long else "short"
                self._say(f"{planned.kind.name} ({what}), {planned.seconds:.0f} s, {length}")
                time.sleep(planned.seconds)
            self._faults.append(Happened(planned, begin, self._now()))
            time.sleep(pause(planned, self._interval))

    def _lost(self, settings: Settings, namesrv: str) -> list[str]:
        """Wait until everything is read, and count it at the broker and in the warehouse."""
        until = time.monotonic() + 300
        while True:
            try:
                with _console.capture():
                    counts = proof(settings, CLUSTER, admin.trace_offsets(namesrv, [TRACE_TOPIC]))
            except SystemExit as error:
                if time.monotonic() > until:
                    return [str(error)]
                time.sleep(10)
            else:
                self._say(
                    f"{counts['trace_messages_broker']:,} trace messages, {counts['records']:,} records, each once"
                )
                return []

    def _down(self, settings: Settings) -> list[str]:
        if State(settings).user() is None:
            return []
        done = subprocess.run(
            [sys.executable, "-m", "deploy.up", "down"], capture_output=True, text=True, cwd=PROJECT
        )
        wrong = [] if done.returncode == 0 else [f"make down: {done.stdout}"]
        if (user := holder(lock_file(settings.home))) is not None:
            wrong.append(f"the lock of {settings.home} is held by {user}")
        return wrong + [f"process {pid} is left" for pid in processes_with(lock_file(settings.home))]

    def _keep_logs(self, home: Path) -> None:
        """Copy Airflow's database and all logs, which end with the file system of the run."""
        kept = self._folder.parent / f"{self._folder.name}-logs"
        shutil.copytree(home / "airflow", kept)
        shutil.copy(self._folder / "serve.log", kept)
        _console.print(f"Airflow's database and the logs: {kept}")

    def _left(self) -> list[str]:
        """Processes that still name the folder of the run."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            command = " ".join(process.info["cmdline"] or ())
            if f"{self._folder}/" in f"{command}/" and process.pid != os.getpid():
                found.append(f"process {process.pid} is left: {command[:200]}")
        return found

    def _show(self, alerts: Sequence[Shown]) -> None:
        table = Table(
            "fault", "from", "to", "its alerts, opened to resolved", title="faults and alerts, seconds"
        )
        for fault in self._faults:
            own = [
                f"{a.check} {a.begin:.0f} to {'-' if a.end is None else f'{a.end:.0f}'}"
                for a in alerts
                if fault.begin <= a.begin <= fault.end + 2 * self._interval
            ]
            length = "[bold]long[/]" if fault.planned.is_long else "short"
            table.add_row(
                f"{fault.planned.kind.name}, {length}",
                f"{fault.begin:.0f}",
                f"{fault.end:.0f}",
                "; ".join(own) or "-",
            )
        _console.print(table)

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _say(self, text: str) -> None:
        _console.print(f"{self._now():6.0f} s  {text}")


if __name__ == "__main__":
    sys.exit(main())
