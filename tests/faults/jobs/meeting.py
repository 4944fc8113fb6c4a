"""Two processes that plan a job at the same time: `python -m tests.faults.jobs.meeting FOLDER NAME ROUNDS CLUSTER`.

They take the rounds `extract-0`, `extract-1`, …, then `merge-0`, …. In each round the job waits behind its first plan until the
other process has planned too. In even rounds both go on at once, in odd ones the process `late` when the other has ended.
Before a round the process waits for the file `go-<round>`; after it, it writes `<NAME>-done-<round>` with how it ended.
"""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path

from tests.faults.jobs.job import JOBS, around

SECONDS = 240
LATE = "late"


def wait_for(folder: Path, pattern: str, count: int) -> None:
    until = time.monotonic() + SECONDS
    while len(list(folder.glob(pattern))) < count:
        if time.monotonic() > until:
            raise TimeoutError(f"{folder}: not {count} of {pattern}")
        time.sleep(0.005)


def main() -> None:
    folder, name, rounds, cluster = sys.argv[1:]
    here = Path(folder)
    arguments = {"extract": ["--cluster", cluster], "merge": []}
    this_round, one_after_the_other = "", False

    def meet() -> None:
        mine = here / f"{name}-planned-{this_round}"
        if not mine.exists():
            mine.touch()
            wait_for(here, f"*-planned-{this_round}", 2)
            if one_after_the_other and name == LATE:
                wait_for(here, f"*-done-{this_round}", 1)

    for job, of_job in arguments.items():
        around(JOBS[job].plan, after=meet)
        for number in range(int(rounds)):
            this_round, one_after_the_other = f"{job}-{number}", number % 2 == 1
            wait_for(here, f"go-{this_round}", 1)
            try:
                end = str(JOBS[job].main([*of_job, "--run-id", f"{name}-{this_round}"]))
            except Exception:
                end = traceback.format_exc()
            (here / "writing").write_text(end)
            (here / "writing").rename(here / f"{name}-done-{this_round}")


if __name__ == "__main__":
    main()
