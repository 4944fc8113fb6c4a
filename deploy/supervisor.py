"""Keep child processes running: start each when what it needs answers, restart it with back-off when it ends or hangs.

All times are of the monotonic clock: the clock of the machine may jump.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deploy import child_process

log = logging.getLogger(__name__)

# By component: whether it answers; None: nobody can say, as when the one that knows does not answer.
Health = Mapping[str, bool | None]


@dataclass(frozen=True)
class Component:
    """A command that is kept running, and the components that must answer before it starts."""

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Patience:
    """How long to wait, seconds.

    Attributes:
        start: for the first answer of a process.
        hung: for another answer of a process that has answered; then it is ended and restarted.
        stop: for a process that is to end; then it is killed.
        first_pause: before the first restart; each further one waits twice as long.
        longest_pause: between two restarts.
        stable: a component that has answered for so long is well: its faults are forgotten.
        deaths: so many ends in a row, none of them after `stable`, are a fault.
        silent: a component that does not answer for so long is a fault, whatever its process does.
    """

    start: float = 180
    hung: float = 120
    stop: float = 10
    first_pause: float = 1
    longest_pause: float = 60
    stable: float = 120
    deaths: int = 3
    silent: float = 240


@dataclass
class Watched:
    """What is known of a component.

    Attributes:
        component: its command.
        process: that runs; None: none does.
        pid: of the newest process.
        restarts: since the supervisor started.
        deaths: in a row, without being stable in between.
        last_end: why and how the last process ended.
        next_start: not before this time.
        healthy_since: None: it does not answer.
        unhealthy_since: None: it answers, or nobody can say.
        silent_since: as `unhealthy_since`, whichever process it is.
        kill_at: a process that is to end is killed then.
        faulty: people should hear of it.
    """

    component: Component
    process: subprocess.Popen[Any] | None = None
    pid: int | None = None
    restarts: int = 0
    deaths: int = 0
    last_end: str | None = None
    next_start: float = 0.0
    has_answered: bool = False
    healthy_since: float | None = None
    unhealthy_since: float | None = None
    silent_since: float | None = None
    kill_at: float | None = None
    faulty: bool = False

    @property
    def name(self) -> str:
        return self.component.name

    def describe(self, now: float) -> str:
        """Its state in a few words."""
        if self.kill_at is not None:
            said = "hangs, being ended"
        elif self.process is None and now < self.next_start:
            said = f"next start in {self.next_start - now:.0f} s"
        elif self.process is None:
            waits = ", ".join(self.component.needs)
            said = f"waits for {waits}" if waits else "to be started"
        elif self.healthy_since is not None:
            said = "healthy"
        elif not self.has_answered:
            said = "starting"
        else:
            said = "no answer" if self.unhealthy_since is not None else "unknown"
        return said


@dataclass
class Supervisor:
    """Starts and restarts components; `step` does what is due and never waits.

    Attributes:
        components: in the order of their start.
        start: starts the process of a component; may raise OSError.
        health: which of them answer.
        patience: how long to wait for what.
    """

    components: Sequence[Component]
    start: Callable[[Component], subprocess.Popen[Any]]
    health: Callable[[], Health]
    patience: Patience = Patience()
    watched: dict[str, Watched] = field(init=False)

    def __post_init__(self) -> None:
        self.watched = {each.name: Watched(each) for each in self.components}

    @property
    def is_ready(self) -> bool:
        """All components answer."""
        return all(each.healthy_since is not None for each in self.watched.values())

    def step(self, now: float) -> None:
        """Note what ended, start what is due, end what hangs."""
        for each in self.watched.values():
            if each.process is not None and (code := each.process.poll()) is not None:
                self._ended(each, f"ended with code {code}", now)
        health = self.health() if any(each.process for each in self.watched.values()) else {}
        for each in self.watched.values():
            self._heard(each, health.get(each.name), now)
        for each in self.watched.values():
            if each.process is None and now >= each.next_start and self._can_start(each):
                self._start(each, now)

    def hurry(self) -> None:
        """Restart at the next step what waits for its time."""
        for each in self.watched.values():
            each.next_start = 0.0

    def end(self) -> None:
        """End all processes: all get SIGTERM at once, and SIGKILL after `stop` seconds."""
        running = [each.process for each in self.watched.values() if each.process is not None]
        for process in running:
            if process.poll() is None:
                process.terminate()
        for process in running:
            child_process.end(process, self.patience.stop)

    def _can_start(self, each: Watched) -> bool:
        if any(self.watched[name].healthy_since is None for name in each.component.needs):
            return False
        # A process that was killed may have left others, which its guard process is about to end: they hold its port.
        return each.pid is None or not child_process.session_of(each.pid)

    def _start(self, each: Watched, now: float) -> None:
        again = each.pid is not None or each.deaths > 0
        try:
            each.process = self.start(each.component)
        except OSError as error:
            self._ended(each, f"could not be started: {error}", now)
            return
        each.pid = each.process.pid
        each.has_answered, each.healthy_since, each.unhealthy_since = False, None, None
        if each.silent_since is None:
            each.silent_since = now
        if again:
            each.restarts += 1
            log.warning("%s: restarted (pid %d)", each.name, each.pid)
        else:
            log.info("%s: started (pid %d)", each.name, each.pid)

    def _ended(self, each: Watched, how: str, now: float) -> None:
        patience = self.patience
        if each.kill_at is not None:
            how = f"did not answer and was ended ({how})"
        each.process, each.kill_at = None, None
        each.healthy_since, each.unhealthy_since = None, None
        each.silent_since = each.silent_since if each.silent_since is not None else now
        each.deaths += 1
        each.last_end = how
        pause = min(patience.first_pause * 2 ** min(each.deaths - 1, 30), patience.longest_pause)
        each.next_start = now + pause
        each.faulty = each.faulty or each.deaths >= patience.deaths
        log.error("%s: %s; next start in %.0f s", each.name, how, pause)

    def _heard(self, each: Watched, answers: bool | None, now: float) -> None:
        if each.process is None:
            answers = False
        if answers:
            each.has_answered = True
            each.unhealthy_since = each.silent_since = None
            each.healthy_since = now if each.healthy_since is None else each.healthy_since
            if now - each.healthy_since >= self.patience.stable:
                each.deaths, each.faulty = 0, False
        elif answers is None:
            each.unhealthy_since = None
        else:
            each.healthy_since = None
            each.silent_since = now if each.silent_since is None else each.silent_since
            each.faulty = each.faulty or now - each.silent_since >= self.patience.silent
            if each.process is not None:
                self._wait_for(each, now)

    def _wait_for(self, each: Watched, now: float) -> None:
        """End a process that has not answered for too long."""
        assert each.process is not None
        each.unhealthy_since = now if each.unhealthy_since is None else each.unhealthy_since
        allowed = self.patience.hung if each.has_answered else self.patience.start
        if each.kill_at is not None:
            if now >= each.kill_at:
                each.process.kill()
        elif now - each.unhealthy_since >= allowed:
            log.error("%s: pid %s has not answered for %.0f s: ending it", each.name, each.pid, allowed)
            each.process.terminate()
            each.kill_at = now + self.patience.stop
