"""`make run` queries the clusters before it starts Airflow: one line per failure, within seconds. No broker is needed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from deploy import preflight
from spark_jobs.rocketmq import frames, requests
from spark_jobs.settings import PROJECT, Cluster, Settings

NO_PERMISSION, TOPIC_NOT_EXIST = 16, 17


class FakeCluster:
    """Nameserver and broker on one port; answers in RocketMQ's frames."""

    def __init__(self, topics: tuple[str, ...] = ("RMQ_SYS_TRACE_TOPIC",), denies: bool = False):
        self._topics, self._denies = topics, denies
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._server.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream, suppress(OSError):
            while prefix := stream.read(4):
                asked = frames.decode(stream.read(frames.frame_length(prefix)))
                code, fields, body = self._answer(asked)
                connection.sendall(frames.encode(code, asked.opaque, fields, body, flag=1))

    def _answer(self, asked: frames.Frame) -> tuple[int, dict[str, str], bytes]:
        brokers = {"brokerName": "b", "cluster": "c", "brokerAddrs": {"0": self.address}}
        match asked.code:
            case requests.GET_ROUTE_INFO_BY_TOPIC if asked.fields["topic"] not in self._topics:
                return TOPIC_NOT_EXIST, {}, b""
            case requests.GET_ROUTE_INFO_BY_TOPIC:
                queues = {"brokerName": "b", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}
                return 0, {}, json.dumps({"brokerDatas": [brokers], "queueDatas": [queues]}).encode()
            case requests.GET_BROKER_CLUSTER_INFO:
                return 0, {}, json.dumps({"brokerAddrTable": {"b": brokers}}).encode()
            case requests.PULL_MESSAGE if self._denies:
                return NO_PERMISSION, {}, b""
            case requests.PULL_MESSAGE:
                return requests.PULL_NOT_FOUND, {"minOffset": "0", "maxOffset": "0"}, b""
        return 0, {"offset": "1" if self._denies and asked.code == requests.GET_MAX_OFFSET else "0"}, b""


@pytest.fixture
def fake() -> Iterator:
    started: list[FakeCluster] = []

    def start(**how: object) -> FakeCluster:
        started.append(FakeCluster(**how))
        return started[-1]

    yield start
    for each in started:
        each.close()


def cluster(address: str, name: str = "prod", **more: object) -> Cluster:
    return Cluster(name=name, namesrv=[address], **more)


def printed(capsys, *clusters: Cluster) -> list[str]:
    """The warnings of a preflight that lets `make run` continue."""
    preflight.exit_if_unreadable(Settings(clusters=list(clusters)))
    return capsys.readouterr().err.splitlines()


def refused(capsys, *clusters: Cluster) -> list[str]:
    """The lines of a preflight that ends `make run`."""
    with pytest.raises(SystemExit) as ended:
        printed(capsys, *clusters)
    assert capsys.readouterr().err == ""
    return str(ended.value).splitlines()


def test_a_cluster_that_can_be_read_is_not_mentioned(fake, capsys):
    assert printed(capsys, cluster(fake().address)) == []


def test_a_nameserver_that_is_down(capsys):
    (line,) = refused(capsys, cluster("127.0.0.1:1"))
    assert line.startswith("failed: cluster prod, topic RMQ_SYS_TRACE_TOPIC: no nameserver")
    assert "127.0.0.1:1" in line
    assert "Check the addresses" in line


def test_nameservers_that_never_answer(capsys, monkeypatch):
    monkeypatch.setattr(preflight, "DEADLINE_SECONDS", 0.5)
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in silent]
        began = time.monotonic()
        (line,) = refused(capsys, Cluster(name="prod", namesrv=addresses))
        assert time.monotonic() - began < 2
    assert line.startswith("failed: cluster prod: not all answers arrived within 0 s: check that 127.0.0.1:")


def test_a_missing_topic_beside_an_existing_one(fake, capsys):
    topics = ["RMQ_SYS_TRACE_TOPIC", "my_trace"]
    (line,) = printed(capsys, cluster(fake().address, trace_topics=topics))
    assert "cluster prod, topic my_trace" in line
    assert "the nameserver has no route of the topic; it knows the brokers b" in line


def test_credentials_that_are_rejected(fake, capsys):
    (line,) = refused(capsys, cluster(fake(denies=True).address))
    assert line.startswith("failed: cluster prod: broker b ")


def test_missing_variables_of_credentials(fake, capsys, monkeypatch):
    (line,) = refused(capsys, cluster(fake().address, credentials_env="PROD"))
    assert line.startswith("failed: cluster prod: set PROD_ACCESS_KEY and PROD_SECRET_KEY in the environment")
    monkeypatch.setenv("PROD_ACCESS_KEY", "k")
    monkeypatch.setenv("PROD_SECRET_KEY", "s")
    assert printed(capsys, cluster(fake().address, credentials_env="PROD")) == []


def test_a_cluster_with_an_airflow_connection_is_left_to_the_tasks(fake, capsys):
    given = {"credentials_env": "PROD", "airflow_conn_id": "rocketmq_prod"}
    assert printed(capsys, cluster(fake(denies=True).address, **given)) == []


def test_one_readable_cluster_is_enough_and_each_other_is_a_warning(fake, capsys):
    given = cluster("127.0.0.1:1", "a"), cluster(fake().address, "b"), cluster("127.0.0.1:1", "c")
    found = printed(capsys, *given)
    assert [line[:18] for line in found] == ["warning: cluster a", "warning: cluster c"]


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--namesrv=127.0.0.1:1"], 1, "failed: cluster default, topic "),
        (["--namesrv=127.0.0.1"], 2, "failed: {}.namesrv: nameserver '127.0.0.1' is not host:port"),
        (["--namesrv=h:1", "--cluster=a b"], 2, "failed: {}.name: string should match pattern"),
    ],
)
def test_make_run_ends_with_one_line(tmp_path, arguments, code, expected):
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "deploy.run_once", *arguments],
        env=os.environ | {"TRACE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )
    (line,) = done.stderr.splitlines()
    assert line.startswith(expected.format("the program's own settings: clusters[0]"))
    assert done.returncode == code
    assert time.monotonic() - began < 40  # 5 s on a machine that does nothing else
    assert not (tmp_path / "home" / "airflow").exists()
