"""The alerts of `make up` about Airflow, the watchdog and the disk."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from deploy import child_process
from deploy.installation_alerts import InstallationAlerts
from deploy.supervisor import Component, Supervisor, Timeouts
from spark_jobs.alerts import resend, run_checks, store, tasks
from spark_jobs.alerts.alert import Alert, advance
from spark_jobs.alerts.sinks import sink
from spark_jobs.checks import disk
from spark_jobs.checks.check import Measured, Run, judge
from spark_jobs.checks.disk import Disk
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.settings import Alerts, Checks, Settings
from tests.checks.loopback import Receiver, alertmanager, needs_alertmanager, receiver, until
from tests.checks.test_alerts import found

INTERVAL = 1
KEPT = 3 * INTERVAL
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
GB = 10**9


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as started:
        yield started


def settings_of(home: Path, hook: Receiver, url: str | None = None, **checks: object) -> Settings:
    return Settings(
        home=home,
        checks=Checks(**{"disk_free_share": 0, "watchdog_silent_intervals": 1000} | checks),
        alerts=Alerts(
            interval_seconds=INTERVAL,
            alertmanager=[url] if url else [],
            apprise={"pipeline": [f"json://{hook.url}/chat"]},
        ),
    )


def titles(hook: Receiver) -> list[str]:
    return [body["title"] for body in hook.bodies("/chat")]


def active(url: str) -> dict[tuple[str, str | None], str]:
    """The alerts that Alertmanager has, by name and entity, and since when."""
    return {
        (each["labels"]["alertname"], each["labels"].get("entity")): each["startsAt"]
        for each in httpx.get(f"{url}/api/v2/alerts", params={"active": True}).json()
    }


class Loop:
    """Steps of the supervisor's alerts beside a test, as `make up` takes them."""

    def __init__(self, alerts: InstallationAlerts, faults: Callable[[], list[Measured]] = lambda: []):
        self._over = threading.Event()
        self._alerts, self._faults = alerts, faults
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.wait(0.1):
            faults = self._faults()
            self._alerts.step(time.monotonic(), ["scheduler", "triggerer"], faults, not faults)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._alerts.end()


@needs_alertmanager
def test_a_component_that_fails_repeatedly_is_an_alert_in_every_sink_until_it_is_healthy(hook, tmp_path):
    """A real process, which ends as long as a file is there."""
    broken = tmp_path / "broken"
    broken.touch()
    command = ("sh", "-c", f"test ! -e {broken} && exec sleep 600; exit 7")
    supervisor = Supervisor(
        [Component("scheduler", command), Component("triggerer", ("sleep", "600"))],
        lambda component: child_process.spawn(component.command),
        lambda: {"scheduler": not broken.exists(), "triggerer": True},
        Timeouts(first_pause=0.1, longest_pause=0.5, stable=2, failures=3),
    )

    def faults() -> list[Measured]:
        supervisor.step(time.monotonic())
        return [
            Measured(each.name, each.failures, str(each.last_end))
            for each in supervisor.states.values()
            if each.is_faulty
        ]

    try:
        with alertmanager(tmp_path / "am", hook.url, "1m") as url:
            alerts = InstallationAlerts(settings_of(tmp_path, hook, url), time.monotonic())
            with Loop(alerts, faults):
                key = ("airflow_component", "scheduler")
                until(lambda: key in active(url), 20, "Alertmanager was not notified")
                until(lambda: len(titles(hook)) == 1, 10, "Apprise was not notified")
                (chat,) = hook.bodies("/chat")
                assert "ended with code 7" in chat["message"]
                assert "docs/runbooks/airflow_component.md" in chat["message"]
                time.sleep(2 * KEPT)
                assert set(active(url)) == {key}, "it stays, alone, as long as the component dies"
                broken.unlink()
                until(lambda: key not in active(url), 20, "it was not resolved in Alertmanager")
                until(lambda: len(titles(hook)) == 2, 10, "Apprise was not notified of the end")
        assert [title.partition(" ")[0] for title in titles(hook)] == ["[CRITICAL]", "[RESOLVED]"]
    finally:
        supervisor.end()


def open_alert(settings: Settings) -> Alert:
    failed = found(("d/t", False), check=BY_NAME["task_failed"])
    (alert,) = advance([], [failed], settings, datetime.now(UTC))
    return alert


@needs_alertmanager
def test_open_alerts_are_resent_while_the_watchdog_is_dead_which_is_an_alert(hook, tmp_path):
    with alertmanager(tmp_path / "am", hook.url, "1m") as url:
        ours = settings_of(tmp_path, hook, url, watchdog_silent_intervals=3)
        stands = open_alert(ours)
        resend.save(ours, [stands], datetime.now(UTC))
        sink.configured(ours.alerts)[0].send([stands], [], INTERVAL)
        since = active(url)
        assert set(since) == {("task_failed", "d/t")}
        with Loop(InstallationAlerts(ours, time.monotonic())):
            end = time.monotonic() + 3 * KEPT
            while time.monotonic() < end:
                assert active(url).items() >= since.items(), "it was resolved, or opened again"
                time.sleep(0.2)
            assert set(active(url)) == {*since, ("watchdog_silent", None)}
            until(lambda: len(titles(hook)) == 1, 10, "Apprise was not notified")
            assert "the watchdog has not run" in titles(hook)[0]
            # The watchdog runs again, and has resolved the other meanwhile.
            resend.save(ours, [], datetime.now(UTC))
            resend.save_last_run(ours, datetime.now(UTC))
            until(lambda: len(titles(hook)) == 2, 10, "its resolution was not sent")
            assert titles(hook)[1].startswith("[RESOLVED]")
            until(lambda: ("task_failed", "d/t") not in active(url), 3 * KEPT, "it was sent again for ever")


def test_while_the_watchdog_runs_nothing_is_resent(hook, tmp_path):
    ours = settings_of(tmp_path, hook)
    ours = ours.model_copy(
        update={
            "alerts": ours.alerts.model_copy(update={"alertmanager": [SecretStr(f"http://{hook.url}/am")]})
        }
    )
    stands = open_alert(ours)
    with Loop(InstallationAlerts(ours, time.monotonic())):
        for _ in range(6):
            resend.save(ours, [stands], datetime.now(UTC))
            resend.save_last_run(ours, datetime.now(UTC))
            time.sleep(INTERVAL)
    assert hook.requests == []


def test_at_its_start_it_resends_alerts_that_were_not_resent_for_long(hook, tmp_path):
    """The machine was off, or the clock is another."""
    ours = settings_of(tmp_path, hook)
    alerts = ours.alerts.model_copy(update={"alertmanager": [SecretStr(f"http://{hook.url}/am")]})
    ours = ours.model_copy(update={"alerts": alerts})
    for hours in (-1, 1):
        hook.requests.clear()
        resend.save(ours, [open_alert(ours)], datetime.now(UTC) + timedelta(hours=hours))
        with Loop(InstallationAlerts(ours, time.monotonic())):
            until(lambda: bool(hook.bodies("/am/api/v2/alerts")), 10, "nothing was sent")


@needs_alertmanager
def test_a_round_slower_than_three_intervals_resolves_nothing(result, settings, hook, tmp_path, monkeypatch):
    """A real round of a job: what was open before stays active all the time, with its first time."""
    store.change(settings, lambda alerts: [])
    with alertmanager(tmp_path / "am", hook.url, "1m") as url:
        ours = settings.model_copy(update={"alerts": settings_of(tmp_path, hook, url).alerts})
        tasks.task_ended(ours, "d/t", True, "its log", "r1", datetime.now(UTC))
        since = active(url)
        assert set(since) == {("task_failed", "d/t")}
        seen: list[dict] = []

        def slow(_: Run) -> list[Measured]:
            end = time.monotonic() + 2.5 * KEPT
            while time.monotonic() < end:
                seen.append(active(url))
                time.sleep(0.2)
            return [Measured("x", 0.0)]

        check = replace(BY_NAME["body_errors"], measure=slow)
        run_checks.evaluate_and_notify([check], Run(ours, datetime.now(UTC)), "slow")
        seen.append(active(url))
        time.sleep(1)
        seen.append(active(url))
        assert all(each == since for each in seen), seen
    store.change(settings, lambda alerts: [])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a full disk needs the right to mount a file system: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as out:
        try:
            while True:
                out.write(bytes(4096))
        except OSError:
            return ballast


def test_a_full_disk_is_an_alert_that_needs_no_disk(hook, small_disk, monkeypatch):
    """The watchdog cannot run then: Airflow's database is on that disk."""
    monkeypatch.setenv("TMPDIR", str(small_disk))
    ours = settings_of(small_disk / "home", hook, disk_free_share=0.05)
    ours.home.mkdir()
    dead: list[Measured] = []
    with Loop(InstallationAlerts(ours, time.monotonic()), lambda: dead):
        resend.save_last_run(ours, datetime.now(UTC))
        ballast = fill(small_disk)
        assert shutil.disk_usage(small_disk).free == 0
        with pytest.raises(OSError, match="No space left"):
            (ours.home / "any").write_text("x" * 5000)
        dead.append(Measured("scheduler", 3, "ended with code 1"))
        until(lambda: len(titles(hook)) == 2, 20, "no notification was sent")
        time.sleep(3 * INTERVAL)
        assert len(titles(hook)) == 2, "once each, though it cannot be saved"
        of_disk, of_component = (
            body["title"]
            for body in sorted(hook.bodies("/chat"), key=lambda body: "Airflow" in body["title"])
        )
        assert of_disk == "[CRITICAL] local: only 0 % of the disk of the home is free, minimum 5 %"
        assert of_component == "[CRITICAL] local: Airflow's scheduler does not run: ended with code 1"
        assert any(
            "0.0 GB of 0.0 GB are free on the disk of TRACE_HOME, the warehouse and temporary files"
            in body["message"]
            for body in hook.bodies("/chat")
        )
        ballast.unlink()
        dead.clear()
        until(lambda: len(titles(hook)) == 4, 20, "its resolution was not sent")
    assert sorted(title.split()[0] for title in titles(hook)) == ["[CRITICAL]"] * 2 + ["[RESOLVED]"] * 2
    assert "disk_space" in (ours.home / "supervisor" / "alerts.json").read_text(), "saved when there was room"


def test_a_full_disk_with_an_alert_of_the_watchdog_is_no_second_alert(hook, tmp_path):
    ours = settings_of(tmp_path, hook, disk_free_share=1.0)
    found_full = judge(disk.disk_space, disk.disk_space.measure(Run(ours, datetime.now(UTC))), ours)
    by_the_watchdog = advance([], [found_full], ours, datetime.now(UTC))
    resend.save(ours, by_the_watchdog, datetime.now(UTC))
    alerts = InstallationAlerts(ours, time.monotonic())
    with Loop(alerts, lambda: [Measured("scheduler", 3, "ended with code 1")]):
        until(lambda: bool(titles(hook)), 10, "no notification was sent")
        time.sleep(3 * INTERVAL)
    assert ["Airflow's scheduler does not run" in title for title in titles(hook)] == [True]
    assert [alert.check for alert in alerts.open] == ["airflow_component"]


def test_errors_do_not_end_the_supervisor(hook, tmp_path, caplog):
    """Nothing can be written, and the sink does not answer."""
    (tmp_path / "supervisor").write_text("a file where a folder should be")
    ours = settings_of(tmp_path, hook)
    hook.answers = [500] * 3
    dead = [Measured("scheduler", 3, "ended with code 1")]
    with caplog.at_level(logging.ERROR), Loop(InstallationAlerts(ours, time.monotonic()), lambda: dead):
        until(lambda: len(hook.requests) == 3, 20, "it was not tried")
        dead.clear()
        until(lambda: "the alerts are kept in memory" in caplog.text, 10, "the log does not say so")


def test_disks_are_identified_by_their_file_systems(small_disk, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(small_disk / "not there yet"))
    ours = Settings(home=tmp_path)
    home, temporary = disk.disks(ours)
    assert (home.entity, home.folders) == ("home", ("TRACE_HOME", "the warehouse"))
    assert (temporary.entity, temporary.folders, temporary.total) == (
        "temporary",
        ("temporary files",),
        4 << 20,
    )
    assert 0.9 < temporary.free_share <= 1
    fill(small_disk)
    assert disk.disks(ours)[1].free_share == 0


def a_disk(free: int) -> Disk:
    return Disk("home", Path("/data"), ("TRACE_HOME",), free * GB, 100 * GB, free / 100)


def test_the_days_left_are_computed_from_the_growth():
    history: disk.History = {}
    for hours, free in ((0, 50), (0.5, 49), (12, 45), (24, 40)):
        history = disk.with_sample(history, [a_disk(free)], NOW + timedelta(hours=hours))
    assert [free // GB for _, free in history["home"]] == [50, 45, 40], "one an hour"
    (measured,) = disk.measure([a_disk(40)], history, NOW + timedelta(hours=24))
    assert measured.value == 0.4
    assert measured.detail == (
        "40.0 GB of 100.0 GB are free on the disk of TRACE_HOME (/data); at the growth of the last 1.0 days, it is "
        "full in 4.0 days"
    )
    (grown_less,) = disk.measure([a_disk(60)], history, NOW + timedelta(hours=24))
    assert "full in" not in grown_less.detail
    (no_history,) = disk.measure([a_disk(40)], {}, NOW)
    assert "full in" not in no_history.detail


def test_the_history_of_a_disk_is_bounded_and_survives_clock_jumps_and_damage(tmp_path):
    history: disk.History = {}
    for hours in range(disk.SAMPLES + 30):
        history = disk.with_sample(history, [a_disk(50)], NOW + timedelta(hours=hours))
    assert len(history["home"]) == disk.SAMPLES
    set_back = disk.with_sample(history, [a_disk(50)], NOW + timedelta(hours=40))
    assert max(time for time, _ in set_back["home"]) == (NOW + timedelta(hours=40)).timestamp()
    file = tmp_path / "disk.json"
    disk.write_history(file, history)
    assert disk.read_history(file) == history
    for damage in ("", "[1]", '{"home": 7}'):
        file.write_text(damage)
        assert disk.read_history(file) == {}
    file.unlink()
    assert disk.read_history(file) == {}


@pytest.mark.parametrize(
    ("alerts", "missing"),
    [
        ({}, ["heartbeat_url", "alerts have no recipient"]),
        ({"heartbeat_url": "http://b"}, ["alerts have no recipient"]),
        ({"alertmanager": ["http://a"]}, ["heartbeat_url"]),
        (
            {"heartbeat_url": "http://b", "apprise": {"messaging": ["json://c"]}},
            ["alerts of the route pipeline have no recipient"],
        ),
        ({"heartbeat_url": "http://b", "apprise": {"pipeline": ["json://c"]}}, []),
    ],
)
def test_missing_settings_are_listed(alerts, missing):
    lines = sink.missing(Alerts(**alerts))
    assert len(lines) == len(missing)
    assert all(part in line for part, line in zip(missing, lines, strict=True))


def test_the_supervisor_loads_neither_airflow_nor_spark_nor_the_lake():
    heavy = ("airflow", "pyspark", "py4j", "pyiceberg", "pyarrow", "sqlalchemy", "dbt")
    code = f"import sys, deploy.up; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
WATCHES = """
import select, sys, time
from pathlib import Path

from deploy.installation_alerts import InstallationAlerts
from spark_jobs.checks.check import Measured
from spark_jobs.settings import Settings

alerts = InstallationAlerts(Settings(), time.monotonic())
while not Path(sys.argv[1]).exists():
    dead = [] if Path(sys.argv[2]).exists() else [Measured("scheduler", 3, "ended with code 1")]
    alerts.step(time.monotonic(), ["scheduler"], dead, not dead)
    select.select([], [], [], 0.1)  # libfaketime breaks time.sleep
alerts.end()
"""


@needs_alertmanager
@pytest.mark.skipif(
    FAKETIME is None, reason="libfaketime is not installed (Debian: apt-get install libfaketime)"
)
def test_a_clock_that_jumps_resolves_nothing_and_raises_nothing(hook, tmp_path):
    """The clock of this machine, beside that of Alertmanager, jumps an hour forward, back, and an hour too far."""
    clock, stop, well = tmp_path / "clock", tmp_path / "stop", tmp_path / "well"
    clock.write_text("+0")
    with alertmanager(tmp_path / "am", hook.url, "1m") as url:
        ours = settings_of(tmp_path, hook, url, watchdog_silent_intervals=1000)
        resend.save(ours, [open_alert(ours)], datetime.now(UTC))
        environment = os.environ | {
            **{"TRACE_HOME": str(tmp_path), "TRACE_CHECKS__DISK_FREE_SHARE": "0"},
            **{"TRACE_CHECKS__WATCHDOG_SILENT_INTERVALS": "1000"},
            **{"TRACE_ALERTS__INTERVAL_SECONDS": "4", "TRACE_ALERTS__ALERTMANAGER": f'["{url}"]'},
            **{"TRACE_ALERTS__APPRISE": f'{{"pipeline": ["json://{hook.url}/chat"]}}'},
            **{"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(clock)},
            **{"FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"},
        }
        expected = {("task_failed", "d/t"), ("airflow_component", "scheduler")}
        process = subprocess.Popen([sys.executable, "-c", WATCHES, str(stop), str(well)], env=environment)
        try:
            until(lambda: set(active(url)) == expected, 30, "Alertmanager was not notified")
            for now in ("+1h", "-1h"):
                clock.write_text(now)
                end = time.monotonic() + 8
                while time.monotonic() < end:
                    assert set(active(url)) == expected, now
                    time.sleep(0.2)
            well.touch()
            until(lambda: set(active(url)) == {("task_failed", "d/t")}, 20, "its resolution was not sent")
            # The chat hears of it after Alertmanager.
            wanted = ["[CRITICAL]", "[RESOLVED]"]
            until(
                lambda: [title.partition(" ")[0] for title in titles(hook)] == wanted, 20, "no chat message"
            )
            assert process.poll() is None
        finally:
            stop.touch()
            process.wait(60)
