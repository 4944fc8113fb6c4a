"""The jobs as the test drivers run them: the real `main` of each, and the functions that its steps go through.

A driver puts a function around one of them with `around`; a step that is no more is an AttributeError.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from spark_jobs.ingest import raw
from spark_jobs.jobs import brokers, extract, merge, replay
from spark_jobs.lake import publish, tables
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings
from spark_jobs.trace import merge as trace_merge
from spark_jobs.trace import replay as trace_replay

Step = tuple[ModuleType, str]


@dataclass(frozen=True)
class Job:
    """`plan` makes the plan, `write` writes the files and commits them on a branch, `audit` checks it."""

    main: Callable[[list[str]], int]
    table: tables.Table
    plan: Step
    write: Step
    audit: Step
    publish: Step = (publish, "fast_forward")


JOBS = {
    "extract": Job(extract.main, tables.RAW, (brokers, "plan"), (publish, "append"), (raw, "_audit")),
    "merge": Job(
        merge.main, tables.EVENTS, (merge, "pending"), (trace_merge, "_insert"), (trace_merge, "_audit")
    ),
    "replay": Job(
        *(replay.main, tables.EVENTS),
        *((trace_replay, "parts_of"), (trace_replay, "_replace"), (trace_replay, "_audit")),
    ),
}


def around(
    step: Step, before: Callable[[], Any] | None = None, after: Callable[[], Any] | None = None
) -> None:
    """From now on `before` and `after` are called around the step."""
    module, name = step
    real = getattr(module, name)

    @functools.wraps(real)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before:
            before()
        result = real(*args, **kwargs)
        if after:
            after()
        return result

    setattr(module, name, wrapped)


def expire(table: tables.Table) -> int:
    """Expire all snapshots of a table but those that main and the branches are at."""
    spark = session("expire", Settings())
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + 1))
    spark.sql(
        f"call lake.system.expire_snapshots(table => '{table.full_name}', older_than => timestamp '{now}', retain_last => 1)"
    ).show()
    return 0


def run(name: str, arguments: list[str]) -> None:
    """Run `extract`, `merge`, `replay` or `expire <job>`, and end the process with its exit code."""
    if name == "expire":
        sys.exit(expire(JOBS[arguments[0]].table))
    sys.exit(JOBS[name].main(arguments))
