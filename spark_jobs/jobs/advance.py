"""Job without Spark: advance the watermarks of all clusters if no trace topic has a new message.

It asks the brokers what `ingest` asks them, and records their facts. If there is nothing to read or to merge, it publishes the
offsets up to which every queue is complete, by a commit without rows to `lake.raw.trace_messages` and one to
`lake.events.trace_records`. Otherwise it changes nothing, and ends with the exit code `WORK`: the job `ingest` has work to do.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyiceberg.exceptions import CommitFailedException

from spark_jobs.ingest.plan import Plan
from spark_jobs.jobs import report
from spark_jobs.jobs.extract import planned, record_facts
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
from spark_jobs.lake.tables import EVENTS, RAW, Table
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.settings import Cluster, Settings

WORK = 3


def advance(
    clusters: list[Cluster], settings: Settings, run_id: str
) -> tuple[dict[str, Plan], dict[str, list[str]]] | None:
    """Publish that nothing is new; return the plans and the failures by cluster, or None if there is work for Spark.

    There is work, too, if a cluster does not answer within `extract.wait_seconds`, and if another run publishes meanwhile.
    """
    raw, events = committed(settings, RAW), committed(settings, EVENTS)
    if raw is None or events is None or raw.positions != events.positions:
        return None
    plans: dict[str, Plan] = {}
    failures: dict[str, list[str]] = {}

    def ask(cluster: Cluster) -> None:
        try:
            found = planned(cluster, settings, raw.positions, settings.extract.max_offsets_per_run)
        # The brokers reject the credentials, or a secret is missing.
        except (RocketMQError, ValueError) as error:
            failures[cluster.name] = [f"cluster {cluster.name}: {error}"]
        else:
            plans[cluster.name] = found
            if found.failures:
                failures[cluster.name] = [*found.failures.values()]

    _in_threads(ask, clusters, settings.extract.wait_seconds)
    if any(each.name not in plans and each.name not in failures for each in clusters):
        return None
    if any(plan.ranges or plan.gaps for plan in plans.values()):
        return None
    # As in `ingest`, facts are committed before the watermark that is judged with them.
    _in_threads(lambda cluster: record_facts(cluster, settings, run_id), clusters)
    changed = _changed(raw.positions, plans)
    if changed and not _publish(settings, raw, events, changed, run_id):
        return None
    return plans, failures


def _in_threads(
    act: Callable[[Cluster], None], clusters: list[Cluster], seconds: float | None = None
) -> None:
    """Act on all clusters side by side, and wait for all, or so long; daemons do not keep the process alive."""
    threads = [threading.Thread(target=act, args=(each,), daemon=True) for each in clusters]
    until = time.monotonic() + (seconds or 0)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()) if seconds else None)


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
    return _commit(settings, RAW, raw.head, properties | of_cluster) and _commit(
        settings, EVENTS, events.head, properties | {CHANGE_SEQ: str(events.change_seq)}
    )


def _commit(settings: Settings, table: Table, head: int | None, properties: dict[str, str]) -> bool:
    """A snapshot without rows on top of `head`; whether main was still there."""
    loaded = lake(settings).load_table(table.name)
    newest = loaded.current_snapshot()
    if newest is None or newest.snapshot_id != head:
        return False
    try:
        with loaded.transaction() as transaction:
            transaction.update_snapshot(properties).fast_append().commit()
    except CommitFailedException:
        return False
    return True


def main(argv: list[str] | None = None) -> int:
    parser = job_parser(__doc__)
    parser.add_argument(
        "--failures",
        type=Path,
        help="write the failed clusters to this file, as JSON: name to reasons. The exit code is then 0",
    )
    args = parser.parse_args(argv)
    settings = Settings()
    started = time.monotonic()
    done = advance(settings.clusters, settings, args.run_id)
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
    sys.exit(run_job(main))
