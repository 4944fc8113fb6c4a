"""Superset as a component of `make up`."""

from __future__ import annotations

from pathlib import Path

from deploy.dashboards import service
from spark_jobs.serving import files
from spark_jobs.settings import Settings


def test_ctrl_c_is_no_failure(tmp_path: Path, monkeypatch, capsys):
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(service, "serve", interrupted)
    monkeypatch.setenv("TRACE_HOME", str(tmp_path / "home"))
    assert service.main([]) == 0
    assert capsys.readouterr().err == "stopped\n"


def test_superset_answers_while_it_waits_and_is_not_stopped_while_it_creates_its_database(tmp_path: Path):
    settings, port = Settings(home=tmp_path), service.free_port()
    assert service.answers(settings, port) is True
    file = files.start(settings).with_name(files.DASHBOARDS)
    file.touch()
    file.with_name(files.FILE).touch()
    files.publish(settings, file.with_name(files.FILE))
    assert service.answers(settings, port) is None
    home = service.Superset(settings).home
    home.mkdir()
    (home / "imported").touch()
    assert service.answers(settings, port) is False


def test_it_binds_loopback_unless_configured_otherwise_as_in_a_container(tmp_path: Path):
    superset = service.Superset(Settings(home=tmp_path))
    assert "127.0.0.1:8088" in superset.command(8088)
    assert "0.0.0.0:8088" in superset.command(8088, "0.0.0.0")
