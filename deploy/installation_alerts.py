"""The alerts of `make up` about itself: components that fail, a silent watchdog, a full disk.

They need neither the lake nor Airflow. They are stored in memory, and in a file if it can be written.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.alerts import file_store, resend
from spark_jobs.alerts.alert import SKEW, Alert, identity
from spark_jobs.alerts.notify import notify, remind, utc_now
from spark_jobs.checks import disk
from spark_jobs.checks.check import Check, Evaluation, Measured, judge
from spark_jobs.checks.installation import airflow_component, watchdog_silent
from spark_jobs.settings import Settings

log = logging.getLogger(__name__)

# Maximum interval of the checks and of retries of notifications, seconds.
ROUND_SECONDS = 30.0
# The open alerts are resent to Alertmanager after this many intervals without a resend; it keeps them for three.
REMIND_INTERVALS = 1.5
RESOLVED_KEPT = 20
# The system clock was set if it moved by more than this against the monotonic clock.
CLOCK_SECONDS = 10.0


class Store:
    """Alerts in memory, and in a file if it can be written."""

    def __init__(self, file: Path):
        self.alerts = file_store.read(file)
        self._file = file
        self._is_saved = True

    def change(self, to: Callable[[list[Alert]], list[Alert]]) -> list[Alert]:
        """As `file_store.change`, without exceptions."""
        after = to(self.alerts)
        over = [alert for alert in after if not alert.is_open]
        old = [a for a in over if set(a.opened_sent_to) <= set(a.resolved_sent_to)][:-RESOLVED_KEPT]
        kept = [alert for alert in after if alert not in old]
        if kept != self.alerts or not self._is_saved:
            self.alerts = kept
            try:
                file_store.write(self._file, self.alerts)
            except OSError as error:
                if self._is_saved:
                    log.error("%s cannot be written; the alerts are kept in memory: %s", self._file, error)
                self._is_saved = False
            else:
                self._is_saved = True
        return after


class FileAge:
    """The time since a file was last replaced, by the monotonic clock, as the system clock may jump."""

    def __init__(self, file: Path, age: float, now: float):
        self._file = file
        self._version = self._look()
        self._since = now - age

    def age(self, now: float) -> float:
        """Seconds."""
        if (version := self._look()) != self._version:
            self._version, self._since = version, now
        return now - self._since

    def forget(self) -> None:
        """Let the age be infinite until the file is replaced again."""
        self._since = -math.inf

    def restart(self, now: float) -> None:
        """Count from now."""
        self._since = now

    def _look(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


class InstallationAlerts:
    """Runs the checks of the installation and notifies the sinks in a thread, so that `step` never blocks.

    Args:
        settings: the sinks, the limits, `TRACE_HOME`.
        now: monotonic time, seconds.
    """

    def __init__(self, settings: Settings, now: float):
        self._settings = settings
        self._interval = float(settings.alerts.interval_seconds)
        self._store = Store(settings.home / "supervisor" / "alerts.json")
        self._sent = FileAge(resend.file(settings), _age(resend.read(settings).sent_at), now)
        self._watchdog = FileAge(resend.last_run_file(settings), 0.0, now)
        self._reminded = -math.inf
        self._next_reminder = now
        self._epoch = time.time() - now
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="alerts")
        self._round: Future[None] | None = None
        self._next = now
        self._known: frozenset[str | None] = frozenset()

    @property
    def open(self) -> list[Alert]:
        return [alert for alert in self._store.alerts if alert.is_open]

    def watchdog_age(self, now: float) -> float:
        """Seconds since the last run of the watchdog, or since it could run."""
        return self._watchdog.age(now)

    def start_watchdog_timer(self, now: float) -> None:
        """Airflow is ready: the watchdog can run from now on."""
        self._watchdog.restart(now)

    def step(
        self, now: float, components: Sequence[str], faults: Sequence[Measured], all_answer: bool
    ) -> None:
        """Start a round of checks if one is due, or if the faults have changed.

        Args:
            now: monotonic time, seconds.
            components: all names.
            faults: the faulty components, each with the number of its ends in a row, at least 1.
            all_answer: every component is healthy now.
        """
        unsent_seconds = min(self._sent.age(now), now - self._reminded)
        if self._clock_was_set(now):
            # An Alertmanager on this machine has expired the open alerts, or will keep them too long.
            self._next = self._next_reminder = now
            self._reminded, unsent_seconds = -math.inf, math.inf
            self._sent.forget()
        if self._round is not None and not self._round.done():
            return
        at_fault = {fault.entity: fault for fault in faults}
        failing = frozenset(at_fault)
        with_reminder = now >= self._next_reminder and unsent_seconds > REMIND_INTERVALS * self._interval
        if now < self._next and failing == self._known and not with_reminder:
            return
        self._known = failing
        self._next = now + min(ROUND_SECONDS, self._interval)
        if with_reminder:
            self._next_reminder = now + min(ROUND_SECONDS, self._interval / 4)
        silent = self.watchdog_age(now) / self._interval
        found = [
            (
                airflow_component,
                [at_fault.get(name, Measured(name, 0, "it answers")) for name in components],
            ),
            (watchdog_silent, [_of_watchdog(silent, self._interval)]),
        ]
        is_healthy = all_answer and silent <= REMIND_INTERVALS
        self._round = self._pool.submit(self._run_checks, now, found, not is_healthy, with_reminder)

    def _clock_was_set(self, now: float) -> bool:
        """Whether it was set by more than a few seconds since the last call."""
        before, self._epoch = self._epoch, time.time() - now
        return abs(self._epoch - before) > CLOCK_SECONDS

    def end(self) -> None:
        """Wait until the current round has finished."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run_checks(
        self,
        now: float,
        found: list[tuple[Check, list[Measured]]],
        with_disks: bool,
        with_reminder: bool,
    ) -> None:
        try:
            if with_reminder:
                self._remind(now)
            # The watchdog checks the disks while it runs.
            if with_disks or any(alert.check == disk.disk_space.name for alert in self.open):
                found = [*found, (disk.disk_space, self._disks())]
            off = self._settings.checks.off
            evaluations = [judge(each, of, self._settings) for each, of in found if each.name not in off]
            # The clock may have been set back a little since an alert was last evaluated.
            at = utc_now()
            at = max([at, *(a.known_at for a in self._store.alerts if a.known_at <= at + SKEW)])
            notify(self._store.change, evaluations, self._settings, at)
        except Exception:  # of any kind: the supervisor and the next round continue
            log.exception("the alerts of the installation could not be sent")

    def _remind(self, now: float) -> None:
        """Resend the open alerts of the jobs and the watchdog to Alertmanager, as they do not."""
        standing = list(resend.read(self._settings).alerts)
        of_itself = file_store.read(resend.watchdog_alerts_file(self._settings))
        standing += [alert for alert in of_itself if alert.is_open and alert.announced]
        if not remind(standing, self._settings).undelivered:
            self._reminded = now
            if standing:
                log.warning("resent %d open alerts to Alertmanager, as no job does", len(standing))

    def _disks(self) -> list[Measured]:
        """The disks, without those that have an open alert of the watchdog."""
        settings = self._settings
        history = disk.read_history(disk.history_file(settings))
        measured = disk.measure(disk.disks(settings), history, utc_now())
        reported = {alert.identity for alert in resend.read(settings).alerts}
        ours = {alert.identity for alert in self.open}

        def name(each: Measured) -> str:
            judged: Evaluation = judge(disk.disk_space, [each], settings)
            return identity(judged, judged.results[0], settings.environment)

        return [each for each in measured if name(each) in ours or name(each) not in reported]


def _of_watchdog(silent: float, interval: float) -> Measured:
    return Measured(
        None,
        round(silent, 1),
        f"trace_watchdog last ended {silent * interval / 60:.1f} minutes ago, its interval is {interval:.0f} s: "
        "the scheduler is down, the DAG is paused, or its task does not end",
    )


def _age(at: datetime | None) -> float:
    """Seconds since then; infinite if it is unknown or in the future."""
    if at is None or (age := (datetime.now(UTC) - at).total_seconds()) < 0:
        return math.inf
    return age
