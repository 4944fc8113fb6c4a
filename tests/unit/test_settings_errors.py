"""An error in the settings is one line: where it is set, the key, the nearest valid key, and no value."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs.settings import PROJECT, Settings, TablePolicy
from spark_jobs.settings_error import SettingsError

SECRET = "https://user:secret@example.org"
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path, monkeypatch) -> Write:
    """Write the settings file that `TRACE_SETTINGS` names."""

    def to(text: str) -> Path:
        file = tmp_path / "warehouse.toml"
        file.write_text(text)
        monkeypatch.setenv("TRACE_SETTINGS", str(file))
        return file

    return to


def message() -> str:
    with pytest.raises(SettingsError) as raised:
        Settings()
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[limits]\ngrace_secnds = 5",
            "unknown key limits.grace_secnds: did you mean limits.grace_seconds?",
        ),
        ("grace_seconds = 5", "unknown key grace_seconds: did you mean limits.grace_seconds?"),
        (
            '[limits]\ngrace_seconds = "soon"',
            "limits.grace_seconds: input should be a valid integer, unable to parse string as an integer",
        ),
        (
            '[[clusters]]\nname = "x"\nnamesrv = ["h:1"]\ncredential_env = "X"',
            "unknown key clusters[0].credential_env: did you mean clusters[0].credentials_env?",
        ),
        (
            "[broker_facts]\noffsets_minutes = 20",
            "limits: offsets_lag_seconds must not be less than broker_facts.offsets_minutes",
        ),
        (
            '[schedules]\ningest = "*/5 * * *"',
            "schedules.ingest: not a cron expression, such as */5 * * * *",
        ),
        ('[[clusters]]\nnamesrv = ["h:1"]', "key clusters[0].name is missing"),
    ],
)
def test_a_key_of_the_file(write: Write, text, expected):
    file = write(text)
    assert message() == f"settings file {file}: {expected}"


def test_text_that_is_not_toml(write: Write):
    file = write("limits = [")
    assert message().startswith(f"settings file {file} is not valid TOML: ")


def test_a_file_that_is_missing(write: Write, monkeypatch):
    file = write("")
    monkeypatch.setenv("TRACE_SETTINGS", str(file.with_name("warehose.toml")))
    assert message().endswith(f"does not exist: did you mean {file}?")
    monkeypatch.setenv("TRACE_SETTINGS", str(file.with_name("other.toml")))
    assert message().endswith("does not exist: correct the path or unset the variable")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (
            "TRACE_LIMTS__GRACE_SECONDS",
            "5",
            "unknown setting limts: did you mean TRACE_LIMITS__GRACE_SECONDS?",
        ),
        (
            "TRACE_LIMITS__GRACE_SECNDS",
            "5",
            "unknown key limits.grace_secnds: did you mean limits.grace_seconds?",
        ),
        (
            "TRACE_SPARK_DRIVER_MEMRY",
            "5g",
            "unknown setting spark_driver_memry: did you mean TRACE_SPARK__DRIVER_MEMORY?",
        ),
        ("TRACE_SPARK_MASTER", "local", "did you mean TRACE_SPARK__MASTER?"),
        ("TRACE_CLUSTERS", "[{", "is not valid JSON"),
    ],
)
def test_an_environment_variable(monkeypatch, name, value, expected):
    monkeypatch.setenv(name, value)
    found = message()
    assert found.startswith(f"environment variable {name}")
    assert expected in found


def test_variables_of_other_programs_are_ignored(monkeypatch):
    for name in ("TRACE_CACHE", "TRACE_ID", "TRACE_TESTS_NO_SKIP"):
        monkeypatch.setenv(name, "1")
    Settings()


def test_no_message_has_a_value(write: Write):
    write(f'environment = 5\n[alerts]\nalertmanager = "{SECRET}"\nheartbeat = "{SECRET}"')
    found = message()
    assert "secret" not in found
    assert "alerts.heartbeat_url" in found


@pytest.mark.parametrize(
    "command",
    [
        ["spark_jobs.jobs.watchdog"],
        ["spark_jobs.jobs.merge"],
        ["deploy.run_once", "--namesrv", "127.0.0.1:1"],
        ["deploy.up", "status"],
    ],
    ids=" ".join,
)
def test_a_program_ends_with_one_line(write: Write, tmp_path, command):
    file = write("[limits]\ngrace_secnds = 5")
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env=os.environ | {"TRACE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"failed: settings file {file}: unknown key limits.grace_secnds: did you mean limits.grace_seconds?\n"
    )
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("job", ["advance_ingest", "ingest"])
def test_without_a_cluster_there_is_nothing_to_ingest(tmp_path, job):
    done = subprocess.run(
        [sys.executable, "-m", f"spark_jobs.jobs.{job}"],
        env=os.environ | {"TRACE_HOME": str(tmp_path), "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == "failed: no cluster is configured: name a settings file in TRACE_SETTINGS\n"


def test_retention_is_for_tables_whose_rows_have_an_age():
    for tables in ("marts.*", "*", "intermediate.int_messages"):
        with pytest.raises(ValueError, match="retention_days needs tables of raw, events, broker_facts, ops"):
            TablePolicy(tables=tables, retention_days=400)
    assert TablePolicy(tables="ops.check_results", retention_days=10).retention_days == 10
