"""The sandbox's processes: they keep their data, and never outlive the process that started them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy import child_process
from sandbox import admin, server
from sandbox.broker import TRACE_TOPIC, Sandbox, rocketmq
from sandbox.ports import ports_of
from sandbox.record import Offsets
from sandbox.server import SandboxError
from spark_jobs.settings import PROJECT

HOLD = """
import sys, time
from pathlib import Path
from sandbox.broker import rocketmq
with rocketmq(Path(sys.argv[1]), stop_in_order=False) as sandbox:
    print(sandbox.namesrv_pid, sandbox.broker_pid, sandbox.namesrv, sandbox.broker_address, flush=True)
    time.sleep(600)
"""
SEND_TRACE = """
import os, sys
from pathlib import Path
from sandbox import java_client
java_client.start_jvm(Path(sys.argv[2]))
producer = java_client.java_class("client.producer.DefaultMQProducer")("writer")
producer.setNamesrvAddr(sys.argv[1])
producer.start()
for number in range(int(sys.argv[3])):
    producer.send(java_client.message("RMQ_SYS_TRACE_TOPIC", f"body {number}"))
producer.shutdown()
os._exit(0)
"""


def run_python(code: str, *arguments: object) -> None:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(PROJECT)}, check=True, timeout=60)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pids: list[int], seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while any(map(alive, pids)):
        assert time.monotonic() < give_up, f"still there after {seconds} s: {[p for p in pids if alive(p)]}"
        time.sleep(0.1)


def hold(folder: Path) -> tuple[subprocess.Popen[str], list[str]]:
    """A process that runs a sandbox; it has printed (nameserver pid, broker pid, nameserver, broker)."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    return holder, holder.stdout.readline().split()


def ends(sandbox: Sandbox) -> Offsets:
    return admin.trace_offsets(sandbox.namesrv, [TRACE_TOPIC])


def test_kill_9_of_the_parent_then_the_same_folder_again(tmp_path: Path) -> None:
    real_home = set(os.listdir(Path.home()))
    holder, (namesrv_pid, broker_pid, namesrv, address) = hold(tmp_path)
    pids = [int(namesrv_pid), int(broker_pid)]
    try:
        run_python(SEND_TRACE, namesrv, tmp_path / "client", 5)
        with (
            pytest.raises(SandboxError, match=f"process {holder.pid} already runs a sandbox on"),
            rocketmq(tmp_path),
        ):
            pass
    finally:
        holder.kill()
        holder.wait()
    # At once, while they still go down: what is left over is ended, then all goes on as it was.
    with rocketmq(tmp_path, stop_in_order=False) as sandbox:
        assert not any(map(alive, pids))
        assert (sandbox.namesrv, sandbox.broker_address) == (namesrv, address)
        assert ends(sandbox) == {TRACE_TOPIC: {"broker-a": {0: [0, 5]}}}
        sandbox.broker.kill()
        with pytest.raises(SandboxError, match="does not run"):
            _ = sandbox.broker_pid
        sandbox.extra_broker_conf["fileReservedTime"] = "99"
        sandbox.broker.start()
        assert "fileReservedTime=99" in (tmp_path / "broker.conf").read_text()
        run_python(SEND_TRACE, sandbox.namesrv, tmp_path / "client", 3)
        assert ends(sandbox) == {TRACE_TOPIC: {"broker-a": {0: [0, 8]}}}
        pids = [sandbox.namesrv_pid, sandbox.broker_pid]
    assert not any(map(alive, pids))
    new = set(os.listdir(Path.home())) - real_home
    assert not new & {"store", "logs", "namesrv", ".rocketmq_offsets", "rocketmq_client.properties"}


def test_kill_9_of_the_parent_ends_the_servers(tmp_path: Path) -> None:
    holder, (namesrv_pid, broker_pid, *_) = hold(tmp_path)
    holder.kill()
    holder.wait()
    wait_until_gone([int(namesrv_pid), int(broker_pid)], child_process.GRACE_SECONDS + 5)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_child_process_ends_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import time; from deploy import child_process; "
        "print(child_process.spawn(['sleep', '600']).pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.send_signal(number)
    parent.wait()
    wait_until_gone([child], 5)


def test_ctrl_c_reaches_the_parent_alone(tmp_path: Path) -> None:
    process = child_process.spawn(["sleep", "600"])
    try:
        time.sleep(0.3)
        assert os.getsid(process.pid) == process.pid != os.getsid(0)
    finally:
        assert child_process.end(process, 5)


def test_the_death_of_a_thread_ends_nothing(tmp_path: Path) -> None:
    code = (
        "import time, threading; from deploy import child_process; started = []\n"
        "t = threading.Thread(target=lambda: started.append(child_process.spawn(['sleep', '600'])))\n"
        "t.start(); t.join(); time.sleep(1); print(started[0].poll(), flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PROJECT)
    assert done.stdout == "None\n"


def test_ports_are_kept_unless_in_use(tmp_path: Path) -> None:
    first = ports_of(tmp_path)
    assert ports_of(tmp_path) == first
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", first.broker - 2))
        other.listen()
        second = ports_of(tmp_path)
    assert second != first
    assert json.loads((tmp_path / "ports.json").read_text()) == {
        "namesrv": second.namesrv,
        "broker": second.broker,
    }


def test_an_unrelated_process_is_not_ended(tmp_path: Path) -> None:
    def started(folder: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sh", "-c", "sleep 60; true", f"-Duser.home={folder}"], start_new_session=True
        )

    left_over, stranger = started(tmp_path), started(tmp_path / "another")
    try:
        server.end_left_over(tmp_path)
        assert left_over.wait() == -signal.SIGTERM
        assert stranger.poll() is None
    finally:
        for each in (left_over, stranger):
            os.killpg(each.pid, signal.SIGKILL)
            each.wait()


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    conf = {"storePathRootDir": "/proc/nowhere"}
    with (
        pytest.raises(SandboxError, match=r"the broker ended with code \d+ while starting.*broker\.out"),
        rocketmq(tmp_path, extra_broker_conf=conf, stop_in_order=False),
    ):
        pass
