"""Checks before Airflow starts, so that a wrong setting is one line and not a failed DAG run."""

from __future__ import annotations

import sys
from contextlib import suppress

from spark_jobs.settings import Settings

DEADLINE_SECONDS = 5.0


def exit_if_wrong_lake(settings: Settings) -> None:
    """End the program if the lake is not the one of the settings. An unreachable catalog is reported by the jobs.

    Raises:
        SystemExit: it is another lake, or a copy; the message has the remedy.
    """
    from spark_jobs.lake.catalog import lake
    from spark_jobs.lake.identity import WrongLakeError

    with suppress(Exception):
        try:
            lake(settings)
        except WrongLakeError as error:
            sys.exit(f"failed: {error}")


def exit_if_unreadable(settings: Settings) -> None:
    """Read a message of every queue of every cluster, and print one line per failure, within `DEADLINE_SECONDS`.

    A run continues if at least one cluster can be read; the others fail alone. A cluster whose credentials are in an Airflow
    connection is not queried, as only Airflow's tasks can read them.

    Raises:
        SystemExit: no cluster can be read; the message has the cause, the place and the remedy.
    """
    from spark_jobs.checks.brokers import query
    from spark_jobs.rocketmq.errors import of_cluster

    queried = [cluster for cluster in settings.clusters if not cluster.airflow_conn_id]
    answers = query(settings.model_copy(update={"clusters": queried}), {}, DEADLINE_SECONDS)
    failures = [of_cluster(name, why) for name, found in answers.items() for why in found.failures]
    # The min and max offset of a queue need no permission, its messages do.
    is_readable = any(
        state.stored_at is not None or not state.unread
        for found in answers.values()
        for state in found.seen.values()
    )
    if failures and not is_readable and len(queried) == len(settings.clusters):
        sys.exit("\n".join(f"failed: {line}" for line in failures))
    for line in failures:
        print(f"warning: {line}", file=sys.stderr, flush=True)
