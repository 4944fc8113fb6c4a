"""Real processes under the supervisor, with the clock of the test: no test waits for a pause."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from deploy import child_process
from deploy.supervisor import Component, ComponentState, Supervisor, Timeouts

RUNS = ("sleep", "600")
ENDS = ("sh", "-c", "exit 3")


@dataclass
class Run:
    """A supervisor whose components answer as the test defines; a component that is not in `answers` answers."""

    components: list[Component]
    timeouts: Timeouts = Timeouts()
    answers: dict[str, bool | None] = field(default_factory=dict)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.supervisor = Supervisor(self.components, self.start, self.health, self.timeouts)

    def start(self, component: Component) -> subprocess.Popen:
        return child_process.spawn(component.command)

    def health(self) -> dict[str, bool | None]:
        return {each.name: self.answers.get(each.name, True) for each in self.components}

    def __getitem__(self, name: str) -> ComponentState:
        return self.supervisor.states[name]

    def step(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.supervisor.step(self.now)

    def step_until(self, holds: Callable[[], bool]) -> None:
        """Without any time of its clock."""
        until = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < until
            time.sleep(0.02)
            self.step()

    def step_to_end(self, name: str) -> None:
        """The process that runs ends."""
        failures = self[name].failures
        self.step_until(lambda: self[name].failures > failures)

    def kill(self, name: str) -> None:
        os.kill(self[name].pid, signal.SIGKILL)
        self.step_to_end(name)


@pytest.fixture
def run() -> Iterator[Callable[..., Run]]:
    started: list[Run] = []

    def make(*components: Component, **more: object) -> Run:
        started.append(Run(list(components), **more))
        return started[-1]

    yield make
    for each in started:
        each.supervisor.end()


def test_a_component_that_ends_at_once_is_restarted_with_back_off(run):
    it = run(Component("a", ENDS), timeouts=Timeouts(first_pause=1, longest_pause=8, failures=3))
    it.step()
    pauses, faults = [], []
    for n in range(6):
        it.step_to_end("a")
        pauses.append(it["a"].next_start - it.now)
        faults.append(it["a"].is_faulty)
        it.step(pauses[-1] - 0.01)
        assert (it["a"].process, it["a"].restarts) == (None, n), "too early"
        it.step_until(lambda: not child_process.session_of(it["a"].pid))
        it.step(0.02)
        assert it["a"].restarts == n + 1
    assert pauses == pytest.approx([1, 2, 4, 8, 8, 8])
    assert faults == [False, False, True, True, True, True]
    assert it["a"].last_end == "ended with code 3"


def test_a_component_that_is_killed_once_is_restarted_without_a_fault(run):
    it = run(Component("a", RUNS), Component("b", RUNS))
    it.step()
    first, other = it["a"].pid, it["b"].pid
    it.kill("a")
    it.step(1)
    it.step_until(lambda: it["a"].process is not None)
    assert it["a"].pid != first
    assert (it["b"].pid, it["b"].restarts) == (other, 0)
    assert (it["a"].restarts, it["a"].last_end, it["a"].is_faulty) == (1, "ended with code -9", False)


def test_a_fault_ends_when_the_component_is_stable(run):
    it = run(Component("a", RUNS), timeouts=Timeouts(failures=2, stable=60))
    it.step()
    for _ in range(2):
        it.kill("a")
        it.step(60)
        it.step_until(lambda: it["a"].process is not None)
    assert it["a"].is_faulty
    it.step(1)
    it.step(59)
    assert it["a"].is_faulty
    it.step(1)
    assert (it["a"].is_faulty, it["a"].failures, it["a"].restarts) == (False, 0, 2)


def test_a_component_that_ends_on_purpose_is_no_fault(run):
    it = run(Component("a", ("sh", "-c", "exit 0"), ends_on_purpose=True))
    for number in range(5):
        it.step(it.timeouts.first_pause)
        it.step_until(lambda restarts=number: (it["a"].restarts, it["a"].process) == (restarts, None))
        assert (it["a"].failures, it["a"].is_faulty) == (0, False)
    assert it["a"].last_end == "ended with code 0"


def test_a_component_starts_when_its_dependencies_answer(run):
    it = run(
        Component("server", RUNS),
        Component("client", RUNS, ("server",)),
        answers={"server": False},
    )
    it.step()
    it.step(30)
    assert it["server"].process is not None
    assert it["client"].process is None
    assert it["client"].describe(it.now) == "waits for server"
    it.answers["server"] = True
    it.step(1)
    assert it["client"].process is not None
    it.answers["server"] = False
    it.kill("client")
    it.step(60)
    assert it["client"].process is None, "restarted though what it needs does not answer"


def test_a_component_that_hangs_is_restarted(run):
    it = run(Component("a", RUNS), timeouts=Timeouts(hung=100, stop=5))
    it.step()
    it.step(1)
    first = it["a"].pid
    os.kill(first, signal.SIGSTOP)  # SIGTERM does nothing to it now
    it.answers["a"] = False
    it.step(1)
    it.step(99)
    assert (it["a"].kill_at, it["a"].failures) == (None, 0)
    it.step(1)
    assert it["a"].describe(it.now) == "hangs, being stopped"
    it.step(4)
    assert it["a"].process is not None
    it.step(1)
    it.step_to_end("a")
    assert it["a"].last_end == "did not answer and was stopped (ended with code -9)"
    it.answers["a"] = True
    it.step(1)
    it.step_until(lambda: it["a"].process is not None)
    assert it["a"].pid != first


def test_a_component_with_unknown_health_is_not_restarted(run):
    it = run(Component("a", RUNS), timeouts=Timeouts(hung=100, start=100))
    it.step()
    it.step(1)
    first = it["a"].pid
    it.answers["a"] = None
    for _ in range(10):
        it.step(50)
    assert (it["a"].pid, it["a"].failures, it["a"].is_faulty) == (first, 0, False)


def test_a_component_that_never_answers_is_a_fault_although_its_process_runs(run):
    it = run(Component("a", RUNS), timeouts=Timeouts(start=1000, silent=240), answers={"a": False})
    it.step()
    it.step(239)
    assert not it["a"].is_faulty
    it.step(1)
    assert it["a"].is_faulty


def test_a_component_that_cannot_be_started_is_retried(run, tmp_path):
    it = run(Component("a", RUNS))
    real = it.supervisor.start

    def refuse(_: Component) -> subprocess.Popen:
        raise OSError(28, "No space left on device")

    it.supervisor.start = refuse
    it.step()
    it.step(1)
    it.step(2)
    assert (it["a"].failures, it["a"].is_faulty) == (3, True)
    assert "No space left on device" in it["a"].last_end
    it.supervisor.start = real
    it.step(4)
    assert it["a"].process is not None


def test_restart_now_skips_the_pause(run):
    it = run(Component("a", RUNS), timeouts=Timeouts(first_pause=60))
    it.step()
    it.kill("a")
    it.step_until(lambda: not child_process.session_of(it["a"].pid))
    it.step(1)
    assert it["a"].process is None
    it.supervisor.restart_now()
    it.step()
    assert it["a"].process is not None


def test_children_of_a_killed_process_end_before_its_restart(run):
    """It may hold the port."""
    child = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    it = run(Component("a", (sys.executable, "-c", child)))
    it.step()
    until = time.monotonic() + 10
    while len(child_process.session_of(it["a"].pid)) < 3:  # the process, its child, its guard process
        assert time.monotonic() < until
        time.sleep(0.05)
    first = it["a"].pid
    it.kill("a")
    it.step(1)
    it.step_until(lambda: it["a"].process is not None)
    assert child_process.session_of(first) == []
