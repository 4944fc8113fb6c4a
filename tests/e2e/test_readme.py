"""The cheap commands of the README, which is the same in each language, on the data of `make demo`."""

from __future__ import annotations

import os
import subprocess

import pytest

from spark_jobs.settings import PROJECT
from tests.readme import LANGUAGES, cheap_commands

FILE, KEY = "send_latency_daily.csv", "order-4711"


@pytest.mark.parametrize("command", cheap_commands(LANGUAGES["en"]))
def test_a_command(world, tmp_path, command):
    """As it stands there, but for the place of its file, and for the key, which is one that the traffic has."""
    command = command.replace(FILE, str(tmp_path / FILE))
    if KEY in command:
        sent = next(send for send in world.record().sends if send["traced"] and send.get("keys"))
        command = command.replace(KEY, sent["keys"].split()[0])
    inherited = {name: value for name, value in os.environ.items() if name != "TRACE_SETTINGS"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=PROJECT,
        env=inherited | {"TRACE_HOME": str(world.settings.home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no record has" not in done.stdout
    if FILE in command:
        assert (tmp_path / FILE).read_text().startswith("cluster,topic,producer_group,day,")
    elif command != "make sql":
        assert len(done.stdout.splitlines()) > 3
