"""Keep child processes running: start them in order of their dependencies, restart those that end or hang, with back-off.

All times are of the monotonic clock, as the system clock may jump.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deploy import child_process

log = logging.getLogger(__name__)

# Per component: whether it answers; None if unknown, as when the api-server does not answer.
Health = Mapping[str, bool | None]


@dataclass(frozen=True)
class Component:
    """A command to keep running, and the components that must answer before it starts.

    One that `ends_on_purpose` has not failed if it ends with code 0.
    """

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    ends_on_purpose: bool = False


@dataclass(frozen=True)
class Timeouts:
    """Timeouts of the supervisor, seconds.

    Attributes:
        start: until the first answer of a process.
        hung: until the next answer of a process that has answered before; then it is stopped and restarted.
        stop: until a process ends after SIGTERM; then it is killed.
        first_pause: before the first restart; it doubles with each further restart.
        longest_pause: maximum pause between two restarts.
        stable: a component that has answered for this time is healthy, and its failures are reset.
        failures: number of ends in a row, without `stable` in between, that make a component faulty.
        silent: a component that has not answered for this time is faulty, even if its process runs.
    """

    start: float = 180
    hung: float = 120
    stop: float = 10
    first_pause: float = 1
    longest_pause: float = 60
    stable: float = 120
    failures: int = 3
    silent: float = 240


@dataclass
class ComponentState:
    """The state of a component.

    Attributes:
        component: its command.
        process: the running process; None if there is none.
        pid: of the newest process.
        restarts: their number since the supervisor started.
        failures: ends in a row without `Timeouts.stable` in between.
        last_end: how the last process ended.
        next_start: earliest time of the next start.
        healthy_since: None while it does not answer.
        unhealthy_since: None while it answers, or if that is unknown.
        silent_since: as `unhealthy_since`, across restarts.
        kill_at: when a process that received SIGTERM is killed.
        is_faulty: an alert is sent.
    """

    component: Component
    process: subprocess.Popen[Any] | None = None
    pid: int | None = None
    restarts: int = 0
    failures: int = 0
    last_end: str | None = None
    next_start: float = 0.0
    has_answered: bool = False
    healthy_since: float | None = None
    unhealthy_since: float | None = None
    silent_since: float | None = None
    kill_at: float | None = None
    is_faulty: bool = False

    @property
    def name(self) -> str:
        return self.component.name

    def describe(self, now: float) -> str:
        """The state in a few words."""
        if self.kill_at is not None:
            text = "hangs, being stopped"
        elif self.process is None and now < self.next_start:
            text = f"next start in {self.next_start - now:.0f} s"
        elif self.process is None:
            waits = ", ".join(self.component.needs)
            text = f"waits for {waits}" if waits else "to be started"
        elif self.healthy_since is not None:
            text = "healthy"
        elif not self.has_answered:
            text = "starting"
        else:
            text = "no answer" if self.unhealthy_since is not None else "unknown"
        return text


@dataclass
class Supervisor:
    """Starts and restarts components. `step` does what is due and never blocks.

    Attributes:
        components: in the order of their start.
        start: starts the process of a component; raises OSError.
        health: queries which components answer.
        timeouts: of starts, answers and stops.
    """

    components: Sequence[Component]
    start: Callable[[Component], subprocess.Popen[Any]]
    health: Callable[[], Health]
    timeouts: Timeouts = Timeouts()
    states: dict[str, ComponentState] = field(init=False)

    def __post_init__(self) -> None:
        self.states = {each.name: ComponentState(each) for each in self.components}

    @property
    def is_ready(self) -> bool:
        """Whether all components answer."""
        return all(each.healthy_since is not None for each in self.states.values())

    def step(self, now: float) -> None:
        """Record ended processes, stop processes that hang, and start what is due."""
        for each in self.states.values():
            if each.process is not None and (code := each.process.poll()) is not None:
                on_purpose = code == 0 and each.component.ends_on_purpose and each.kill_at is None
                self._ended(each, f"ended with code {code}", now, on_purpose)
        health = self.health() if any(each.process for each in self.states.values()) else {}
        for each in self.states.values():
            self._update(each, health.get(each.name), now)
        for each in self.states.values():
            if each.process is None and now >= each.next_start and self._can_start(each):
                self._start(each, now)

    def restart_now(self) -> None:
        """Start all waiting components in the next step, without their pauses."""
        for each in self.states.values():
            each.next_start = 0.0

    def end(self) -> None:
        """Stop all processes in parallel: SIGTERM, and SIGKILL after `stop` seconds."""
        running = [each.process for each in self.states.values() if each.process is not None]
        for process in running:
            if process.poll() is None:
                process.terminate()
        for process in running:
            child_process.end(process, self.timeouts.stop)

    def _can_start(self, each: ComponentState) -> bool:
        if any(self.states[name].healthy_since is None for name in each.component.needs):
            return False
        # Children of a killed process may still hold its port, until its guard process has ended them.
        return each.pid is None or not child_process.session_of(each.pid)

    def _start(self, each: ComponentState, now: float) -> None:
        again = each.pid is not None or each.failures > 0
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

    def _ended(self, each: ComponentState, how: str, now: float, on_purpose: bool = False) -> None:
        timeouts = self.timeouts
        if each.kill_at is not None:
            how = f"did not answer and was stopped ({how})"
        each.process, each.kill_at = None, None
        each.healthy_since, each.unhealthy_since = None, None
        each.silent_since = each.silent_since if each.silent_since is not None else now
        each.last_end = how
        if on_purpose:
            each.next_start = now + timeouts.first_pause
            log.info("%s: %s, on purpose; next start in %.0f s", each.name, how, timeouts.first_pause)
            return
        each.failures += 1
        pause = min(timeouts.first_pause * 2 ** min(each.failures - 1, 30), timeouts.longest_pause)
        each.next_start = now + pause
        each.is_faulty |= each.failures >= timeouts.failures
        log.error("%s: %s; next start in %.0f s", each.name, how, pause)

    def _update(self, each: ComponentState, answers: bool | None, now: float) -> None:
        if each.process is None:
            answers = False
        if answers:
            each.has_answered = True
            each.unhealthy_since = each.silent_since = None
            each.healthy_since = now if each.healthy_since is None else each.healthy_since
            if now - each.healthy_since >= self.timeouts.stable:
                each.failures, each.is_faulty = 0, False
        elif answers is None:
            each.unhealthy_since = None
        else:
            each.healthy_since = None
            each.silent_since = now if each.silent_since is None else each.silent_since
            each.is_faulty |= now - each.silent_since >= self.timeouts.silent
            if each.process is not None:
                self._stop_if_hung(each, now)

    def _stop_if_hung(self, each: ComponentState, now: float) -> None:
        """Stop a process that has not answered for too long."""
        assert each.process is not None
        each.unhealthy_since = now if each.unhealthy_since is None else each.unhealthy_since
        allowed = self.timeouts.hung if each.has_answered else self.timeouts.start
        if each.kill_at is not None:
            if now >= each.kill_at:
                each.process.kill()
        elif now - each.unhealthy_since >= allowed:
            log.error("%s: pid %s has not answered for %.0f s: stopping it", each.name, each.pid, allowed)
            each.process.terminate()
            each.kill_at = now + self.timeouts.stop
