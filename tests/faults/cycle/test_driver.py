"""A driver that stays runs the jobs of a cycle; what it refuses, and what ends with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psutil
import pytest

from plugins.idle_operator import SparkUnlessIdleOperator
from plugins.spark_job import spark_job
from spark_jobs.driver.client import BUSY_SECONDS, Address, Client, DriverEndedError
from spark_jobs.lake.tables import EVENTS, RAW
from tests.faults.jobs.world import SECONDS, Started, World

SERVE, INGEST = "spark_jobs.driver.serve", "spark_jobs.jobs.ingest"


@pytest.fixture(scope="module")
def world(filled, settings, broker, java) -> World:
    made = World(filled, settings, broker, java, ["driver"])
    made.make_topics()
    return made


@contextmanager
def started_driver(world: World) -> Iterator[Started]:
    started = world.start(SERVE)
    until = time.monotonic() + SECONDS
    while not Client(world.settings.home).answers():
        assert started.process.poll() is None, started.log.read_text()
        assert time.monotonic() < until, started.log.read_text()
        time.sleep(0.2)
    yield started
    started.process.terminate()
    started.finished(60)


@pytest.fixture(scope="module")
def driver(world: World) -> Iterator[Started]:
    """One for the tests up to the one that ends it."""
    with started_driver(world) as started:
        yield started
    assert Address.read(world.settings.home) is None


@pytest.fixture
def another_driver(world: World) -> Iterator[Started]:
    with started_driver(world) as started:
        yield started


def run(world: World, *arguments: str, job: str = INGEST, **environment: str) -> tuple[int | None, list[str]]:
    lines: list[str] = []
    code = Client(world.settings.home).run(job, arguments, environment, lines.append)
    return code, lines


def test_it_runs_one_job_after_the_other_and_their_output_is_that_of_their_tasks(
    world: World, driver: Started, monkeypatch, caplog
):
    for round_ in range(2):
        world.write(100)
        code, lines = run(world, "--run-id", f"round {round_}")
        assert code == 0, lines
        assert any("read 100 messages" in line or "100" in line for line in lines)
    (jvm,) = [each for each in psutil.Process(driver.process.pid).children() if each.name() == "java"]
    world.write(100)
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    operator = SparkUnlessIdleOperator(
        task_id="ingest",
        idle_job="spark_jobs.jobs.advance_ingest",
        **spark_job("ingest", pool="lake_publish"),
    )
    with caplog.at_level("INFO"):
        assert operator._is_done_by_driver()
    assert jvm.is_running(), "the same JVM ran all of them"
    found = world.compare(RAW, EVENTS)
    assert (found.messages, found.lost, found.doubled, found.wrong) == (300, 0, 0, 0)


def test_a_job_waits_for_the_end_of_another_one(world: World, driver: Started):
    world.write(100)
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda name: run(world, "--run-id", name), ["one", "other"]))
    assert [code for code, _ in both] == [0, 0], both
    found = world.compare(RAW, EVENTS)
    assert (found.lost, found.doubled, found.wrong) == (0, 0, 0)


def test_what_it_refuses_is_left_to_a_driver_of_the_tasks_own(world: World, driver: Started):
    assert run(world, job="spark_jobs.jobs.erase") == (
        None,
        ["the driver does not run it: spark_jobs.jobs.erase is none of its jobs"],
    )
    code, lines = run(world, TRACE_SECRET="of an Airflow connection")
    assert code is None
    assert lines == ["the driver does not run it: TRACE_SECRET have other values in its environment"]
    address = Address.read(world.settings.home)
    assert address is not None
    assert os.stat(Address.file(world.settings.home)).st_mode & 0o077 == 0
    with socket.create_connection(("127.0.0.1", address.port)) as stranger:
        stranger.sendall(json.dumps({"key": "guessed", "job": INGEST}).encode() + b"\n")
        assert stranger.recv(100) == b"", "no answer"


def test_a_job_that_failed_ends_it_and_the_next_one_is_left_to_a_driver_of_its_own(
    world: World, driver: Started
):
    """The driver would drop a job that comes while it ends."""
    code, lines = run(world, "--cluster", "no such cluster")
    assert code not in (0, None)
    assert any("no such cluster" in line for line in lines)
    code, lines = run(world, "--run-id", "comes at once")
    assert code is None, lines
    assert driver.finished(60).code == 0


def test_a_frozen_driver_is_one_that_does_not_answer(world: World, another_driver: Started, monkeypatch):
    monkeypatch.setattr("spark_jobs.driver.client.ANSWER_SECONDS", 2.0)
    another_driver.process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert not Client(world.settings.home).answers()
        code, lines = run(world)
        assert time.monotonic() - began < 30
        assert code is None
        assert lines[0].startswith("the driver does not answer: ")
    finally:
        another_driver.process.send_signal(signal.SIGCONT)
    until = time.monotonic() + SECONDS
    while not Client(world.settings.home).answers():
        assert time.monotonic() < until


def test_a_task_that_is_ended_ends_the_driver_and_nothing_is_lost(
    world: World, another_driver: Started, monkeypatch
):
    """Another task does not wait longer for it than it is asked to."""
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    other = SparkUnlessIdleOperator(
        task_id="other",
        idle_job="spark_jobs.jobs.advance_ingest",
        busy_seconds=2,
        **spark_job("ingest", pool="lake_publish"),
    )
    world.write(2000)
    client = Client(world.settings.home)
    children = psutil.Process(another_driver.process.pid).children(recursive=True)
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if len(lines) == 1:
            refused: list[str] = []
            assert Client(world.settings.home).run(INGEST, [], {}, refused.append, busy_seconds=2) is None
            assert refused == ["the driver does not run it: another job runs in it, for 2 s now"]
            began = time.monotonic()
            assert not other._is_done_by_driver()
            assert 2 <= time.monotonic() - began < BUSY_SECONDS / 2
            client.close()

    with pytest.raises(DriverEndedError):
        client.run(INGEST, [], {}, say)
    assert another_driver.finished(60).code == 1
    assert [child for child in psutil.wait_procs(children, 30)[1] if child.is_running()] == []
    assert run(world)[0] is None, "no driver runs"
    assert world.ingest() == 0
    found = world.compare(RAW, EVENTS)
    assert (found.lost, found.doubled, found.wrong) == (0, 0, 0)
    Address.file(world.settings.home).unlink()  # it was killed


def test_changed_settings_end_it_only_when_no_job_runs(world: World, tmp_path):
    file = tmp_path / "settings.toml"
    file.touch()
    world.extra["TRACE_SETTINGS"] = str(file)
    try:
        with started_driver(world) as driver:
            world.write(500)
            refused: list[str] = []

            def change(line: str) -> None:
                if not refused:
                    file.write_text('[spark]\ndriver_memory = "900m"\n')
                    again = Client(world.settings.home).run(INGEST, [], {}, refused.append, busy_seconds=1)
                    assert again is None

            assert Client(world.settings.home).run(INGEST, ["--run-id", "long"], {}, change) == 0
            assert refused == ["the driver does not run it: another job runs in it, for 1 s now"]
            code, lines = run(world)
            assert code is None
            assert "Spark's properties have changed since it was started" in lines[0]
            assert driver.finished(60).code == 1
    finally:
        del world.extra["TRACE_SETTINGS"]
        Address.file(world.settings.home).unlink(missing_ok=True)  # it was killed
