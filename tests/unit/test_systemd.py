"""The units that `make systemd` writes are valid, and name what `make up` would start."""

from __future__ import annotations

import getpass
import json
import shlex
import shutil
from pathlib import Path

import pytest

from deploy import systemd

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd is not installed (Debian: apt-get install systemd)",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `TRACE_HOME` whose name has all that systemd reads otherwise."""
    found = tmp_path / "a home of 100% $HOME"
    settings = tmp_path / "my settings.toml"
    settings.write_text("")
    monkeypatch.setenv("TRACE_HOME", str(found))
    monkeypatch.setenv("TRACE_SETTINGS", str(settings))
    monkeypatch.setenv("TRACE_CLUSTERS", json.dumps([{"name": "prod", "namesrv": ["127.0.0.1:9876"]}]))
    return found


def written(folder: Path, *arguments: str) -> dict[str, list[str]]:
    """Key to its values, of the unit that the command writes."""
    assert systemd.main(["--folder", str(folder), *arguments]) == 0
    found: dict[str, list[str]] = {}
    for line in (folder / systemd.NAME).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@needs_systemd
@pytest.mark.parametrize("of_system", [False, True], ids=["user", "system"])
def test_a_unit_is_valid_and_starts_after_a_reboot(home: Path, tmp_path: Path, capsys, of_system: bool):
    arguments = ["--system", "--user", getpass.getuser()] if of_system else []
    found = written(tmp_path / "units", *arguments, "--port", "8081", "--dashboards")
    assert found["WantedBy"] == ["multi-user.target" if of_system else "default.target"]
    assert found.get("User") == ([getpass.getuser()] if of_system else None)
    assert found["Restart"] == ["always"]
    (command,) = found["ExecStart"]
    assert shlex.split(command)[1:] == [
        *("-m", "deploy.up", "serve", "--port", "8081", "--dashboards", "--dashboards-port", "8088")
    ]
    assert f'"TRACE_HOME={tmp_path}/a home of 100%% $HOME"' in found["Environment"]
    assert (home / "airflow" / "components").is_dir()
    shown = capsys.readouterr().out
    assert f"enable --now {systemd.NAME}" in shown
    assert ("enable-linger" in shown) == (not of_system)


def test_folders_that_root_creates_belong_to_the_user(tmp_path: Path, monkeypatch):
    owners: dict[Path, str] = {}
    monkeypatch.setattr(shutil, "chown", owners.__setitem__)
    systemd._make_folder(tmp_path / "home" / "airflow" / "components", "trace")
    assert owners == {
        tmp_path / name: "trace" for name in ("home", "home/airflow", "home/airflow/components")
    }
    assert (tmp_path / "home").stat().st_mode & 0o077 == 0


@needs_systemd
def test_what_systemd_does_not_know_is_a_failure(home: Path, tmp_path: Path, monkeypatch, capsys):
    text = systemd.unit
    monkeypatch.setattr(systemd, "unit", lambda *given: text(*given).replace("mixed", "mxied"))
    assert systemd.main(["--folder", str(tmp_path / "units")]) == 1
    assert "mxied" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--system"], "--system and --user go together"),
        (["--user", "trace"], "--system and --user go together"),
        (["--system", "--user", "no such user"], "there is no user no such user"),
    ],
)
def test_a_unit_of_the_system_needs_a_user(home: Path, capsys, arguments: list[str], why: str):
    with pytest.raises(SystemExit):
        systemd.main(arguments)
    assert why in capsys.readouterr().err


def test_without_a_cluster_there_is_nothing_to_start(home: Path, monkeypatch, capsys):
    monkeypatch.setenv("TRACE_CLUSTERS", "[]")
    with pytest.raises(SystemExit):
        systemd.main([])
    assert "no cluster is configured" in capsys.readouterr().err
