"""The alerts of `make up` about itself: components that die, a watchdog that is silent, a disk that is full.

They use neither the lake nor Airflow. They are kept in memory, and in a file where it can be written.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
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

# At least so often, seconds, the checks are made and sinks that did not answer are asked again.
ROUND_SECONDS = 30.0
# Alertmanager is sent the open alerts again when nobody has done so for so many intervals; it keeps them for three.
REMIND_INTERVALS = 1.5
RESOLVED_KEPT = 20
# The clock of the machine was set when it moved so much beside the monotonic one.
CLOCK_SECONDS = 10.0


@dataclass(frozen=True)
class Fault:
    """A component that ended `ends` times in a row, or does not answer."""

    component: str
    ends: int
    detail: str


class Store:
    """Alerts in memory, and in a file as soon as it can be written."""

    def __init__(self, file: Path):
        self.alerts = file_store.read(file)
        self._file = file
        self._is_saved = True

    def change(self, to: Callable[[list[Alert]], list[Alert]]) -> list[Alert]:
        """As `file_store.change`; raises nothing."""
        after = to(self.alerts)
        over = [alert for alert in after if not alert.is_open]
        old = [a for a in over if set(a.opened_sent_to) <= set(a.resolved_sent_to)][:-RESOLVED_KEPT]
        kept = [alert for alert in after if alert not in old]
        if kept != self.alerts or not self._is_saved:
            self.alerts = kept
            self._save()
        return after

    def _save(self) -> None:
        try:
            file_store.write(self._file, self.alerts)
        except OSError as error:
            if self._is_saved:
                log.error("%s cannot be written, the alerts are kept in memory: %s", self._file, error)
            self._is_saved = False
        else:
            self._is_saved = True


class Changes:
    """How long ago a file was last replaced, by the monotonic clock, as the machine's clock may jump."""

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
        """Take it for endlessly long ago, until the file is replaced again."""
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
    """Makes the checks of the installation and notifies the sinks, in a thread: `step` never waits for one.

    Args:
        settings: the sinks, the limits, `TRACE_HOME`.
        now: monotonic time, seconds.
    """

    def __init__(self, settings: Settings, now: float):
        self._settings = settings
        self._interval = float(settings.alerts.interval_seconds)
        self._store = Store(settings.home / "supervisor" / "alerts.json")
        self._sent = Changes(resend.file(settings), _age(resend.read(settings).sent_at), now)
        self._watchdog = Changes(resend.last_run_file(settings), 0.0, now)
        self._reminded = -math.inf
        self._unsent_seconds = 0.0
        self._next_reminder = now
        self._epoch = time.time() - now
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="alerts")
        self._round: Future[None] | None = None
        self._next = now
        self._known: frozenset[str] = frozenset()

    @property
    def open(self) -> list[Alert]:
        return [alert for alert in self._store.alerts if alert.is_open]

    def watchdog_age(self, now: float) -> float:
        """Seconds since the watchdog has run, or since it could."""
        return self._watchdog.age(now)

    def watchdog_can_run_from(self, now: float) -> None:
        """Airflow is ready: before that the watchdog's silence means nothing."""
        self._watchdog.restart(now)

    def step(self, now: float, components: Sequence[str], faults: Sequence[Fault], all_answer: bool) -> None:
        """Start a round where one is due; at once where the faults are others than before.

        Args:
            now: monotonic time, seconds.
            components: all names.
            faults: of the components that are at fault.
            all_answer: every component is well now.
        """
        self._unsent_seconds = min(self._sent.age(now), now - self._reminded)
        if self._clock_was_set(now):
            # An Alertmanager on this machine has taken the open alerts for expired, or will keep them too long.
            self._next = self._next_reminder = now
            self._reminded, self._unsent_seconds = -math.inf, math.inf
            self._sent.forget()
        if self._round is not None and not self._round.done():
            return
        failing = frozenset(fault.component for fault in faults)
        with_reminder = (
            now >= self._next_reminder and self._unsent_seconds > REMIND_INTERVALS * self._interval
        )
        if now < self._next and failing == self._known and not with_reminder:
            return
        self._known = failing
        self._next = now + min(ROUND_SECONDS, self._interval)
        if with_reminder:
            self._next_reminder = now + min(ROUND_SECONDS, self._interval / 4)
        silent = self.watchdog_age(now) / self._interval
        found = [
            (airflow_component, _of_components(components, faults)),
            (watchdog_silent, [_of_watchdog(silent, self._interval)]),
        ]
        is_well = all_answer and silent <= REMIND_INTERVALS
        self._round = self._pool.submit(self._make, now, found, not is_well, with_reminder)

    def _clock_was_set(self, now: float) -> bool:
        """Since the last time that it was asked, by more than a few seconds."""
        before, self._epoch = self._epoch, time.time() - now
        return abs(self._epoch - before) > CLOCK_SECONDS

    def end(self) -> None:
        """Let a round that is under way finish."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _make(
        self,
        now: float,
        found: list[tuple[Check, list[Measured]]],
        with_disks: bool,
        with_reminder: bool,
    ) -> None:
        try:
            if with_reminder:
                self._remind(now)
            # The watchdog looks after the disks as long as it can.
            if with_disks or any(alert.check == disk.disk_space.name for alert in self.open):
                found = [*found, (disk.disk_space, self._disks())]
            off = self._settings.checks.off
            evaluations = [judge(each, of, self._settings) for each, of in found if each.name not in off]
            # The clock may have been set back a little since an alert was last evaluated.
            at = utc_now()
            at = max([at, *(a.known_at for a in self._store.alerts if a.known_at <= at + SKEW)])
            notify(self._store.change, evaluations, self._settings, at)
        except Exception:  # whatever it is, the supervisor goes on, and so does the next round
            log.exception("the alerts of the installation could not be sent")

    def _remind(self, now: float) -> None:
        """Send Alertmanager what the jobs and the watchdog have open, as none of them does."""
        stands = list(resend.read(self._settings).alerts)
        of_itself = file_store.read(resend.of_the_watchdog(self._settings))
        stands += [alert for alert in of_itself if alert.is_open and alert.announced]
        if not remind(stands, self._settings).undelivered:
            self._reminded = now
            if stands:
                log.warning("sent Alertmanager %d open alerts again, as no job does", len(stands))

    def _disks(self) -> list[Measured]:
        """Without those that are an open alert of the watchdog."""
        settings = self._settings
        history = disk.read_history(disk.history_file(settings))
        measured = disk.measure(disk.disks(settings), history, utc_now())
        reported = {alert.identity for alert in resend.read(settings).alerts}
        ours = {alert.identity for alert in self.open}

        def name(each: Measured) -> str:
            judged: Evaluation = judge(disk.disk_space, [each], settings)
            return identity(judged, judged.results[0], settings.environment)

        return [each for each in measured if name(each) in ours or name(each) not in reported]


def _of_components(components: Sequence[str], faults: Sequence[Fault]) -> list[Measured]:
    at_fault = {fault.component: fault for fault in faults}
    return [
        Measured(name, max(1, at_fault[name].ends), at_fault[name].detail)
        if name in at_fault
        else Measured(name, 0, "it answers")
        for name in components
    ]


def _of_watchdog(silent: float, interval: float) -> Measured:
    return Measured(
        None,
        round(silent, 1),
        f"trace_watchdog last ended {silent * interval / 60:.1f} minutes ago, its interval is {interval:.0f} s: "
        "the scheduler is down, the DAG is paused, or its task does not end",
    )


def _age(at: datetime | None) -> float:
    """Seconds since then; endless where it is not known or in the future."""
    if at is None or (age := (datetime.now(UTC) - at).total_seconds()) < 0:
        return math.inf
    return age
