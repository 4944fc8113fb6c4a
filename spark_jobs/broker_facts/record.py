"""Ask the brokers of a cluster, and record what they answered: one collection, then the messages that are suspected to be lost.

Works without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from spark_jobs.broker_facts import store
from spark_jobs.broker_facts.check_suspects import check_suspects
from spark_jobs.broker_facts.collect import collect
from spark_jobs.ingest.source_options import datasource_options
from spark_jobs.lake.tables import MESSAGE_CHECKS
from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.batches import infrequent_garbage_collection
from spark_jobs.rocketmq.options import Options
from spark_jobs.settings import Cluster, Settings


@dataclass(frozen=True)
class Recorded:
    """What a collection added.

    Attributes:
        rows: table name to the number of rows that were added; tables without any are left out.
        superseded: another run of the cluster was first, and what was not written yet was dropped.
        problems: what is unknown and why, a line per broker; without secrets.
    """

    rows: dict[str, int]
    superseded: bool
    problems: list[str]


def record(
    settings: Settings,
    cluster: Cluster,
    run_id: str,
    is_erased: Callable[[str], bool] = lambda group: False,
    credentials: Credentials | None = None,
    is_message_erased: Callable[[str], bool] = lambda msg_id: False,
) -> Recorded:
    """Collect and save the facts of a cluster. The tables must exist (`tables.ensure`).

    Args:
        settings: of the lake, and the limits.
        cluster: the cluster to ask.
        run_id: written to the rows and snapshots.
        is_erased: whether nothing may be stored of a group.
        credentials: None for those of `cluster.credentials_env`, if set.
        is_message_erased: whether nothing may be stored of a message id.

    Raises:
        RocketMQError: no nameserver answers.
        CommitFailedException: ten attempts to commit conflicted with other writers.
        ValueError: a secret or a TLS file is missing.
    """
    limits = settings.broker_facts
    given = datasource_options(cluster, settings.extract) | {
        "topic": cluster.topics[0],  # the options require one; no request names it
        "timeoutMs": str(max(1, int(limits.timeout_seconds * 1000))),
    }
    watermark = store.watermark_of(settings, cluster.name)
    observed_at = datetime.now(UTC)
    with (
        infrequent_garbage_collection()
    ):  # the offsets of all groups are a hundred thousand objects without cycles
        with Options.parse(given).open_remoting(credentials) as client:
            removed = cache(lambda: store.removed_brokers(settings, cluster.name, observed_at))
            collection = collect(client, limits, observed_at, is_erased, lambda broker: broker in removed())
            saved = store.save(settings, collection, watermark, limits, run_id)
            if saved.superseded or not limits.checked_messages:
                return Recorded(saved.rows, saved.superseded, collection.problems)
            try:
                checked = check_suspects(settings, client, collection, is_erased, is_message_erased)
            except (
                Exception
            ) as error:  # of any kind: the facts are saved, and the next collection looks again
                why = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
                problem = f"cluster {cluster.name}, suspected messages: {why}"
                return Recorded(saved.rows, False, [*collection.problems, problem])
        count = store.save_message_checks(settings, collection, watermark, checked.rows, limits, run_id)
    rows = saved.rows | ({MESSAGE_CHECKS.name: count} if count else {})
    return Recorded(rows, bool(checked.rows) and not count, [*collection.problems, *checked.problems])
