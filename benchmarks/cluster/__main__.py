"""`make bench-cluster`: two Spark workers beside one, and clusters beside one that never answers.

Exits with 1 if a target is missed.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks import targets
from benchmarks.cluster import healthy, workers
from benchmarks.extract.machine import description
from sandbox.cpu_limit import CpuLimitError
from spark_jobs.settings import load_settings

AT_LEAST = {"two_workers_vs_one": 1.7}
AT_MOST = {"healthy_clusters": 1.2}
_console = Console(width=120, highlight=False)


def main() -> int:
    begin = time.monotonic()
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    _console.print(f"machine: {description()}", soft_wrap=True)
    ratios = {}
    for name, measure in (("healthy_clusters", healthy.measure), ("two_workers_vs_one", workers.measure)):
        with tempfile.TemporaryDirectory(prefix="cluster-", dir=home) as scratch:
            try:
                ratios[name] = measure(Path(scratch), _console)
            except CpuLimitError as error:
                sys.exit(f"failed: {error}")
    code = targets.report(_console, ratios, AT_MOST, AT_LEAST)
    _console.print(f"({time.monotonic() - begin:.0f} s in all)")
    return code


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    logging.getLogger("sandbox").setLevel(logging.INFO)
    sys.exit(main())
