"""`python -m benchmarks.scale.plain CHANGE_SEQ FILE`: pyarrow writes the records of a change_seq as one Parquet file with zstd.

It prints what the write used, as JSON: records, cpu, wall, written, memory (peak of the process, with the rows that it writes).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.extract.ours import memory_mb
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import EVENTS
from spark_jobs.settings import PROJECT, Settings


@dataclass(frozen=True)
class Plain:
    """What pyarrow's write used; `memory` in bytes."""

    records: int
    cpu: float
    wall: float
    written: int
    memory: int


def measured(environment: dict[str, str], change_seq: int, file: Path) -> Plain:
    """Run it as a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale.plain", str(change_seq), str(file)]
    environment = environment | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return Plain(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    change_seq, file = sys.argv[1:]
    events = lake(Settings()).load_table(EVENTS.name)
    rows = events.scan(row_filter=f"change_seq == {change_seq}").to_arrow()
    cpu, begin = time.process_time(), time.perf_counter()
    pq.write_table(rows, file, compression="zstd")
    used = {
        "records": rows.num_rows,
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - begin,
        "written": Path(file).stat().st_size,
        "memory": int(memory_mb("VmHWM") * 2**20),
    }
    print(json.dumps(used))


if __name__ == "__main__":
    main()
