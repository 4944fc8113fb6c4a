"""Job without Spark: advance the watermarks of raw and events if no trace topic has a new message.

It asks the brokers what `ingest` asks them, and records their facts. If there is nothing to read or to merge, it publishes the
offsets up to which every queue is complete, by a commit without rows to `lake.raw.trace_messages` and one to
`lake.events.trace_records`. Otherwise it ends with the exit code `WORK`: the job `ingest` has work to do.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyiceberg.table.snapshots import ancestors_of

from spark_jobs.ingest.plan import Plan
from spark_jobs.jobs import report
from spark_jobs.jobs.brokers import planned, record_facts
from spark_jobs.jobs.run import job_parser, run_job
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import (
    CHANGE_SEQ,
    EXTRACTED,
    OFFSETS,
    RUN_ID,
    CommittedOffsets,
    Positions,
    committed,
    to_json,
)
from spark_jobs.lake.tables import EVENTS, RAW, missing
from spark_jobs.lake.without_rows import ADVANCED, commit
from spark_jobs.process.exit_codes import WORK
from spark_jobs.rocketmq.errors import RocketMQError, of_cluster
from spark_jobs.settings import Cluster, Settings

# `ingest` evaluates the checks of raw and events, also of those whose window has passed without a new message.
MOST_SECONDS_WITHOUT_CHECKS = 3600


def advance(
    clusters: list[Cluster], settings: Settings, run_id: str
) -> tuple[dict[str, Plan], dict[str, list[str]]] | None:
    """Publish that nothing is new; return the plans and the failures by cluster, or None if there is work for Spark.

    There is work, too, if a cluster does not answer within `extract.wait_seconds`, if another run publishes meanwhile, if a
    table or column is missing, and if Spark has not run for an hour; but not while no queue can be read, as nothing that
    the checks evaluate changes then.
    """
    raw, events = committed(settings, RAW), committed(settings, EVENTS)
    if raw is None or events is None or raw.positions != events.positions:
        return None
    if missing(lake(settings)):
        return None
    asked = _plans(clusters, settings, raw.positions)
    if asked is None:
        return None
    are_read = bool(_changed(raw.positions, asked[0]))
    if are_read and _seconds_without_spark(settings) > MOST_SECONDS_WITHOUT_CHECKS:
        return None
    # As in `ingest`, the brokers are asked for their facts before the queues are read to their end.
    answering = [each for each in clusters if each.name in asked[0]]
    _in_threads(lambda cluster: record_facts(cluster, settings, run_id), answering)
    found = _plans(clusters, settings, raw.positions)
    if found is None:
        return None
    changed = _changed(raw.positions, found[0])
    if changed and not _publish(settings, raw, events, changed, run_id):
        return None
    return found


def _plans(
    clusters: list[Cluster], settings: Settings, before: Positions
) -> tuple[dict[str, Plan], dict[str, list[str]]] | None:
    """The plans and the failures by cluster; None if there is something to read, or a cluster does not answer in time."""
    plans: dict[str, Plan] = {}
    failures: dict[str, list[str]] = {}

    def ask(cluster: Cluster) -> None:
        try:
            found = planned(cluster, settings, before, settings.extract.max_offsets_per_run)
        # The brokers reject the credentials, or a secret is missing.
        except (RocketMQError, ValueError) as error:
            failures[cluster.name] = [of_cluster(cluster.name, error)]
        else:
            plans[cluster.name] = found
            if found.failures:
                failures[cluster.name] = [*found.failures.values()]

    _in_threads(ask, clusters, settings.extract.wait_seconds)
    if any(each.name not in plans and each.name not in failures for each in clusters):
        return None
    if any(plan.ranges or plan.gaps for plan in plans.values()):
        return None
    return plans, failures


def _seconds_without_spark(settings: Settings) -> float:
    """Since the last commit to events that is not one of this job."""
    metadata = lake(settings).load_table(EVENTS.name).metadata
    for snapshot in ancestors_of(metadata.current_snapshot(), metadata):
        summary = snapshot.summary
        if summary is not None and summary[OFFSETS] and not summary[ADVANCED]:
            return time.time() - snapshot.timestamp_ms / 1000
    return float("inf")


def _in_threads(
    act: Callable[[Cluster], None], clusters: list[Cluster], seconds: float | None = None
) -> None:
    """Act on all clusters side by side, and wait for all, or so long."""
    threads = [threading.Thread(target=act, args=(each,), daemon=True) for each in clusters]
    until = time.monotonic() + (seconds or 0)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(None if seconds is None else max(0.0, until - time.monotonic()))


def _changed(before: Positions, plans: dict[str, Plan]) -> Positions:
    """The positions of all plans that differ from those before."""
    return {
        queue: position
        for plan in plans.values()
        for queue, position in plan.positions.items()
        if before.get(queue) != position
    }


def _publish(
    settings: Settings, raw: CommittedOffsets, events: CommittedOffsets, changed: Positions, run_id: str
) -> bool:
    """Commit the positions to both tables; whether they are. If only raw has them, the next run has work to do."""
    positions = to_json(raw.positions | changed)
    properties = {OFFSETS: positions, RUN_ID: run_id}
    clusters = {queue.cluster for queue in changed}
    # Without it, an extraction of any cluster that is published at the same time plans again.
    of_cluster = {EXTRACTED: next(iter(clusters))} if len(clusters) == 1 else {}
    return commit(settings, RAW.name, raw.head, properties | of_cluster) and commit(
        settings, EVENTS.name, events.head, properties | {CHANGE_SEQ: str(events.change_seq)}
    )


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__)
    parser.add_argument(
        "--failures",
        type=Path,
        help="write the failed clusters to this file, as JSON: name to reasons. The exit code is then 0",
    )
    parser.add_argument(
        "--marts",
        action="store_true",
        help="of the job `ingest`; without new records there are none to build",
    )
    args = parser.parse_args(argv)
    settings = Settings()
    started = time.monotonic()
    done = advance(settings.some_clusters, settings, args.run_id)
    if done is None:
        return WORK
    plans, failures = done
    report.advanced(plans, time.monotonic() - started)
    report.ingested({}, failures)
    if args.failures:
        args.failures.write_text(json.dumps(failures))
        return 0
    return 1 if failures else 0


if __name__ == "__main__":
    code = run_job(main)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads that wait for a silent broker would keep the process alive
