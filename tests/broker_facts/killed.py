"""A collection that is killed after some commits, of the only cluster: `python -m tests.broker_facts.killed COMMITS`."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from spark_jobs.broker_facts import store
from spark_jobs.broker_facts.record import record
from spark_jobs.settings import Settings

if __name__ == "__main__":
    left, real = int(sys.argv[1]), store._save

    def dies(*given: Any) -> int:
        global left
        added = real(*given)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return added

    store._save = dies
    settings = Settings()
    record(settings, settings.clusters[0], "killed")
