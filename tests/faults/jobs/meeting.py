"""Two processes of a job that plan at the same time: `python -m tests.faults.jobs.meeting FOLDER NAME ROUNDS JOB …`.

In each round the job waits behind its first plan until the other process has planned too. In even rounds
both go on at once, in odd ones the process `late` when the other has ended. Before a round the process
waits for the file `go-<round>`; after it, it writes `<NAME>-done-<round>` with how it ended.
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
    folder, name, rounds, job, *arguments = sys.argv[1:]
    here = Path(folder)
    number = 0

    def meet() -> None:
        mine = here / f"{name}-planned-{number}"
        if not mine.exists():
            mine.touch()
            wait_for(here, f"*-planned-{number}", 2)
            if number % 2 and name == LATE:
                wait_for(here, f"*-done-{number}", 1)

    around(JOBS[job].plan, after=meet)
    for number in range(int(rounds)):
        wait_for(here, f"go-{number}", 1)
        try:
            end = str(JOBS[job].main([*arguments, "--run-id", f"{name}-{number}"]))
        except Exception:
            end = traceback.format_exc()
        (here / "writing").write_text(end)
        (here / "writing").rename(here / f"{name}-done-{number}")


if __name__ == "__main__":
    main()
