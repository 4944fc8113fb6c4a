"""`make bench-lookup`: the life of a message, warm and as a command, and the serving file beside a year of hours.

`python -m benchmarks.lookup race mqadmin year` runs the parts by name. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks import targets
from benchmarks.extract.machine import description
from benchmarks.lookup import lakes, mqadmin, race, year
from spark_jobs.settings import load_settings

AT_MOST = {
    "lookup_p95_ms": 300,
    "lookup_20m_vs_2m": 1.3,
    "lookup_vs_mqadmin": 1.0,
    "serving_1y_vs_1d": 1.3,
}
_console = Console(width=120, highlight=False)


def main() -> int:
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(_PARTS), help="race, mqadmin, year (default: all)")
    parts = parser.parse_args().parts
    home = load_settings().home / "bench"
    home.mkdir(parents=True, exist_ok=True)
    _console.print(f"machine: {description()}", soft_wrap=True)
    ratios: dict[str, float] = {}
    for part in parts:
        ratios |= _PARTS[part](home)
    code = targets.report(_console, ratios, AT_MOST)
    _console.print(f"{time.monotonic() - begin:.0f} s in all")
    return code


def _race(_: Path) -> dict[str, float]:
    lanes = race.race(lakes.built(_console), _console)
    many, few = lanes[race.MANY].ms, lanes[race.FEW].ms
    return {
        "lookup_p95_ms": race.p95(many),
        "lookup_20m_vs_2m": statistics.median(many) / statistics.median(few),
    }


def _mqadmin(home: Path) -> dict[str, float]:
    return {"lookup_vs_mqadmin": mqadmin.ratio(home, _console)}


def _year(home: Path) -> dict[str, float]:
    return {"serving_1y_vs_1d": year.ratio(home, _console)}


_PARTS = {"race": _race, "mqadmin": _mqadmin, "year": _year}

if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", force=True)
    logging.getLogger("sandbox").setLevel(logging.INFO)
    sys.exit(main())
