"""A scheduler that failed ends, although processes that it has started run on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

FAILS = """
import multiprocessing, runpy, time
import airflow.__main__

def main():
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,)).start()
    {end}

airflow.__main__.main = main
runpy.run_module("deploy.airflow_command", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [("raise OSError(28, 'No space left on device')", 1), ("raise SystemExit(3)", 3), ("pass", 0)],
)
def test_the_process_ends_with_the_command(end, code, tmp_path):
    environment = os.environ | {"AIRFLOW_HOME": str(tmp_path)}
    with (tmp_path / "log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", FAILS.format(end=end)],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            assert process.wait(60) == code
        finally:
            os.killpg(process.pid, signal.SIGKILL)
        log.seek(0)
        assert ("No space left on device" in log.read()) == (code == 1)
