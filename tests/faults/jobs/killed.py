"""A job that is killed at a point: `python -m tests.faults.jobs.killed POINT MARK JOB ARGUMENTS…`.

At the point it stops its JVM (SIGSTOP), writes to the file MARK what it saw there, and ends the JVM, the
Python workers and itself with SIGKILL. If the point is never reached, the job ends as it would, without MARK.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from spark_jobs.ingest import raw
from spark_jobs.lake.tables import Table
from spark_jobs.settings import Settings
from tests.faults.jobs import job as jobs
from tests.faults.jobs.job import JOBS, Job, around
from tests.faults.jobs.world import CLUSTER

Die = Callable[[dict[str, Any]], None]


def folder_of(settings: Settings, table: Table) -> Path:
    return settings.home / "warehouse" / table.name.replace(".", "/")


def watch(look: Callable[[], dict[str, Any] | None], die: Die) -> None:
    """In a thread of its own look again and again, until there is something to see; then die."""

    def loop() -> None:
        while (seen := look()) is None:
            time.sleep(0.001)
        die(seen)

    threading.Thread(target=loop, daemon=True).start()


def planned(job: Job, die: Die) -> None:
    """The plan is made, nothing is read."""
    around(job.plan, after=lambda: die({}))


class Catalog:
    """Held locked, the catalog can be read and takes no commit: what a job has not committed, it cannot."""

    def __init__(self, table: Table):
        settings = Settings()
        self.metadata = folder_of(settings, table) / "metadata"
        self._before = set(self.metadata.glob("*.metadata.json"))
        self._lock = sqlite3.connect(
            settings.home / "catalog.db", isolation_level=None, check_same_thread=False
        )

    def hold(self) -> None:
        self._lock.execute("begin immediate")

    @property
    def held(self) -> bool:
        return self._lock.in_transaction

    @property
    def new(self) -> list[str]:
        """The metadata files that came since this was made."""
        return sorted(file.name for file in set(self.metadata.glob("*.metadata.json")) - self._before)


def mid_read(job: Job, die: Die) -> None:
    """Some tasks of the write are done, others are at it; the catalog is held: a fast job would commit meanwhile."""
    catalog = Catalog(job.table)

    def hold() -> None:
        tracker = SparkContext._active_spark_context.statusTracker()  # type: ignore[union-attr]

        def jobs_so_far() -> set[int]:
            # An extraction has its cluster's name as job group, a merge has none.
            return {*tracker.getJobIdsForGroup(), *tracker.getJobIdsForGroup(CLUSTER)}

        earlier = jobs_so_far()

        def look() -> dict[str, Any] | None:
            jobs = [tracker.getJobInfo(id) for id in jobs_so_far() - earlier]
            stages = [tracker.getStageInfo(id) for job in jobs if job for id in job.stageIds]
            done, active = (
                sum(getattr(stage, name) for stage in stages if stage)
                for name in ("numCompletedTasks", "numActiveTasks")
            )
            return {"done": done, "active": active} if active and done else None

        catalog.hold()
        watch(look, die)

    around(job.write, before=hold)


def files_written(job: Job, die: Die) -> None:
    """Data files, manifests and new metadata are there; the catalog, held locked here, cannot take the commit."""

    def hold() -> None:
        catalog = Catalog(job.table)
        catalog.hold()
        watch(lambda: {"metadata": new, "locked": catalog.held} if (new := catalog.new) else None, die)

    around(job.write, before=hold)


def committed(job: Job, die: Die) -> None:
    """The commit is on the branch, not audited."""
    around(job.audit, before=lambda: die({}))


def audited(job: Job, die: Die) -> None:
    """The branch is audited, main is where it was."""
    around(job.audit, after=lambda: die({}))


def gaps_saved(job: Job, die: Die) -> None:
    """Offsets that the broker has deleted are in `ops.ingest_gaps`, main is where it was."""
    around((raw, "_record_gaps"), after=lambda: die({}))


def published(job: Job, die: Die) -> None:
    """Main is at the new snapshot, the process has not ended."""
    around(job.publish, after=lambda: die({}))


def expiry(job: Job, die: Die) -> None:
    """The expiry is in the metadata; of the files that it frees some are deleted, others are there."""
    doomed = json.loads(os.environ["DOOMED_FILES"])
    catalog = Catalog(job.table)

    def look() -> dict[str, Any] | None:
        left = sum(os.path.exists(file) for file in doomed)
        deleted = len(doomed) - left
        return {"metadata": catalog.new, "deleted": deleted, "left": left} if deleted else None

    watch(look, die)


POINTS: dict[str, Callable[[Job, Die], None]] = {
    "planned": planned,
    "mid-read": mid_read,
    "files-written": files_written,
    "committed": committed,
    "audited": audited,
    "gaps-saved": gaps_saved,
    "published": published,
    "expiry": expiry,
}


def descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        parents.setdefault(parent, []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def jvm() -> int:
    """The process of this job's JVM."""
    return int(SparkContext._gateway.proc.pid)  # type: ignore[union-attr]


def die_at(mark: Path) -> Die:
    once = threading.Lock()

    def die(seen: dict[str, Any]) -> None:
        once.acquire()  # never released: whoever comes second waits for its end
        spark = jvm()
        os.kill(spark, signal.SIGSTOP)
        workers = descendants(spark)
        mark.write_text(json.dumps(seen | {"jvm": spark, "workers": workers}))
        for pid in (spark, *workers, os.getpid()):
            os.kill(pid, signal.SIGKILL)

    return die


def main() -> None:
    point, mark, name, *arguments = sys.argv[1:]
    POINTS[point](JOBS[arguments[0] if name == "expire" else name], die_at(Path(mark)))
    jobs.run(name, arguments)


if __name__ == "__main__":
    main()
