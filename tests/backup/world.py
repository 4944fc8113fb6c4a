"""Jobs on a home, and what is in its lake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.settings import PROJECT, Settings
from tests.planning import QUICK

KEY = "victim-4711"
NAMED = "SubAfter\x01rq{0}\x01id{0}\x013\x01true\x01" + KEY + "\x010\x02"
COMPARED = (tables.RAW.name, tables.EVENTS.name, tables.ERASURES.name)


def started(name: str, home: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    environment = os.environ | {
        "TRACE_HOME": str(home),
        "TRACE_SPARK__CONF": json.dumps(QUICK),
        "PYTHONPATH": str(PROJECT),
    }
    return subprocess.Popen(
        [sys.executable, "-m", f"spark_jobs.jobs.{name}", *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def job(name: str, home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    process = started(name, home, *arguments)
    out, errors = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def state(settings: Settings) -> dict[str, Counter[str]]:
    """The rows of every snapshot and branch of the compared tables, read without Spark."""
    found = {}
    for name in COMPARED:
        table = lake(settings).load_table(name)
        for snapshot in table.metadata.snapshots:
            rows = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
            found[f"{name} {snapshot.snapshot_id}"] = Counter(map(str, rows))
        for ref, where in table.metadata.refs.items():
            found[f"{name} {ref}"] = Counter([str(where.snapshot_id)])
    return found


def files(home: Path) -> dict[str, tuple[int, int]]:
    """Size and time of all files of the lake."""
    found = (home / "catalog.db", *(home / "warehouse").rglob("*"))
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found if path.is_file()}
