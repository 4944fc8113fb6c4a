"""`python -m tests.chaos.serve PORT FACTOR`: the supervisor of `make up`, with its timeouts divided by a factor."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace

from deploy import up
from deploy.supervisor import Timeouts
from spark_jobs.settings import load_settings

if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.raiseExceptions = False
    port, factor = int(sys.argv[1]), float(sys.argv[2])
    usual = Timeouts()
    # Not `start` and `hung`: a process needs its time to start, and to answer on a busy machine.
    scaled = replace(
        usual,
        longest_pause=usual.longest_pause / factor,
        stable=usual.stable / factor,
        silent=usual.silent / factor,
    )
    up.Timeouts = lambda: scaled  # type: ignore[assignment,misc]
    up.serve(load_settings(), port, dashboards=None)
