"""What `client = "rocketmq-client-python"` refuses before anything is read, and what it takes from the library's log."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from benchmarks.clients import __main__ as clients
from benchmarks.clients import cases
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.rocketmq.librocketmq import limits
from spark_jobs.rocketmq.librocketmq.decoding import refuse_unreadable
from spark_jobs.rocketmq.librocketmq.limits import UnsupportedError
from spark_jobs.rocketmq.librocketmq.log import Log, failures_in
from spark_jobs.rocketmq.options import Options
from spark_jobs.settings import PROJECT, Settings
from spark_jobs.settings_error import SettingsError

CLUSTER = {"name": "c", "namesrv": ["h:9876"], "client": limits.OFFICIAL}
LINE = (
    "[2026-Nov-28 17:17:17.243812](error):msg: check signature failed.,error:16,in file "
    "</tmp/rocketmq-client-cpp/src/MQClientAPIImpl.cpp> line:553[pullMessageSync:496]\n"
    "[2026-Nov-28 17:17:17.243866](error):msg: The pullResult NULL ofMessageQueue [topic=t, brokerName=b, queueId=0],error:-1,"
    "in file </tmp/rocketmq-client-cpp/src/consumer/PullAPIWrapper.cpp> line:54[pullSyncImpl:231]\n"
)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"tls": {"verify": False}, "broker_facts": False}, limits.NO_TLS),
        ({}, f"cluster c: {limits.NO_FACTS}"),
        ({"client": "rocketmq"}, "'remoting' or 'rocketmq-client-python'"),
    ],
    ids=["TLS", "broker facts", "another client"],
)
def test_settings_that_it_cannot_follow_are_one_line(given: dict[str, object], line: str):
    with pytest.raises(SettingsError, match=re.escape(line)) as caught:
        Settings(clusters=[{**CLUSTER, **given}])
    assert "\n" not in str(caught.value)


def test_settings_that_it_can_follow():
    without_facts = Settings(clusters=[{**CLUSTER, "broker_facts": False}])
    assert without_facts.clusters[0].client == limits.OFFICIAL
    assert Settings(clusters=[CLUSTER], broker_facts={"enabled": False}).clusters[0].broker_facts
    assert Settings(clusters=[{**CLUSTER, "client": limits.REMOTING}]).clusters[0].client == limits.REMOTING


def test_options_that_it_cannot_follow():
    given = {"namesrv": "h:9876", "topic": "t", "client": limits.OFFICIAL}
    with pytest.raises(ValueError, match=re.escape(limits.NO_TLS)):
        Options.parse({**given, "tls": "true"})
    with pytest.raises(ValueError, match="'client' must be remoting or rocketmq-client-python, not 'cpp'"):
        Options.parse({**given, "client": "cpp"})
    with pytest.raises(UnsupportedError, match="cannot ask for broker facts"):
        Options.parse(given).open_remoting()


@pytest.mark.parametrize("name", [name for name in vars(limits) if name.startswith("NO_")])
def test_a_refusal_is_one_line_that_names_the_client(name: str):
    assert re.fullmatch(r"[^\n]*rocketmq-client-python[^\n]*", getattr(limits, name))


@pytest.mark.parametrize(
    ("sys_flag", "why"),
    [
        (0x10, "IPv6"),
        (0x20, "IPv6"),
        (0xC0, "a batch that is stored as one message"),
        (0x101, "inflated as zlib"),
        (0x201, "inflated as zlib"),
    ],
)
def test_messages_that_the_library_would_misread(sys_flag: int, why: str):
    with pytest.raises(UnsupportedError, match=why):
        refuse_unreadable(sys_flag)


@pytest.mark.parametrize("sys_flag", [0, 0x1, 0x301, 0x40, 0x80])
def test_messages_that_it_reads(sys_flag: int):
    refuse_unreadable(sys_flag)


def test_the_log_has_the_reason_and_the_broker_s_code():
    assert failures_in(LINE) == [(16, "check signature failed.")]
    away = (
        "[2026-Nov-28 17:13:54.296351](warning):can not connect to server:127.0.0.1:1[CreateTransport:343]\n"
    )
    assert failures_in(away) == [(-1, "can not connect to server:127.0.0.1:1")]
    assert failures_in("[2026-Nov-28 17:13:53.901842](info):MQClient start[start:141]\nbroken") == []


def test_a_failure_is_read_once(tmp_path: Path):
    file = tmp_path / "7_rocketmq-cpp.log.0"
    log = Log(tmp_path, 7)
    assert log.failures() == []
    file.write_text(LINE)
    (tmp_path / "8_rocketmq-cpp.log.0").write_text(LINE)  # of another process
    assert log.failures() == [(16, "check signature failed.")]
    assert log.failures() == []
    with file.open("a") as more:
        more.write(LINE.replace("16", "1"))
    assert log.failures() == [(1, "check signature failed.")]


def test_errors_are_those_of_the_other_client():
    """A caller that handles `RocketMQError` handles these, too."""
    for error in (limits.UnsupportedError, limits.LibraryError, limits.UsedAfterForkError):
        assert issubclass(error, RocketMQError)


def test_the_extra_and_its_lock_name_the_same_package():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    (wanted,) = project["optional-dependencies"]["official-client"]
    lock = (PROJECT / "spark_jobs" / "rocketmq" / "librocketmq" / "requirements.lock").read_text()
    assert re.findall(r"^(\S+) \\$", lock, re.MULTILINE) == [wanted]
    assert re.search(r"--hash=sha256:[0-9a-f]{64}", lock)


def test_the_table_of_the_page_is_that_of_the_benchmark():
    """`make bench-clients` writes it; its columns, and the outcomes that it must have, are known without a broker."""
    page = clients.PAGE.read_text()
    written = page.partition(clients.START)[2].partition(clients.END)[0]
    assert written.startswith(clients.table([], "").split("\n\n")[0])
    rows = [line.strip("|").split("|") for line in written.splitlines() if line.startswith("|")]
    official = {case.strip(): cell.strip() for _, case, _, cell in rows}
    for case in ("none", "zlib"):
        assert official[case] == f"{cases.CODEC_MESSAGES:,} messages, all fields equal"
    for case, error in {
        **dict.fromkeys(("lz4", "zstd", "offset of a time", "registered brokers"), "UnsupportedError"),
        **dict.fromkeys(("wrong secret", "no credentials"), "AuthenticationError"),
        "used after a fork": "UsedAfterForkError",
        "native code crashes": "LibraryError",
        "nameserver away": "UnreachableError",
        "range beyond the end": "ShortRangeError",
    }.items():
        assert official[case].startswith(f"`{error}` after "), case
