"""The clients of the containers, on a RocketMQ with the broker's settings of docker-compose.yml."""

from __future__ import annotations

import logging

from sandbox import clients_service
from sandbox.broker import rocketmq
from sandbox.record import new_run


def test_a_round_is_recorded_and_old_ones_are_removed(tmp_path):
    folder = tmp_path / "clients"
    for _ in range(clients_service.KEPT_RUNS + 1):
        new_run(folder)
    with rocketmq(tmp_path / "rocketmq", stop_in_order=False) as broker:
        assert clients_service.one_round(broker.namesrv, 20, folder)
    assert (folder / clients_service.LAST_ROUND).exists()
    kept = sorted(run.name for run in folder.glob("run-*"))
    assert len(kept) == clients_service.KEPT_RUNS
    assert kept[-1] == f"run-{clients_service.KEPT_RUNS + 2:04d}"
    assert (folder / kept[-1] / "offsets.json").exists()


def test_a_round_that_fails_is_logged_and_not_recorded(tmp_path, caplog):
    caplog.set_level(logging.ERROR)
    assert not clients_service.one_round("127.0.0.1:1", 20, tmp_path)
    assert "the round failed, the next one starts all the same" in caplog.text
    assert not (tmp_path / clients_service.LAST_ROUND).exists()
