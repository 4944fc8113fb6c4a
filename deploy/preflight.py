"""What is verified before Airflow starts, so that a wrong setting is one line and not a failed DAG run."""

from __future__ import annotations

import sys
from contextlib import suppress

from spark_jobs.settings import Settings


def exit_if_wrong_lake(settings: Settings) -> None:
    """End where the lake is not the one that the settings mean; a catalog that is away is for the jobs to report.

    Raises:
        SystemExit: it is another lake, or a copy; the message says what to do.
    """
    from spark_jobs.lake.catalog import lake
    from spark_jobs.lake.identity import WrongLakeError

    with suppress(Exception):
        try:
            lake(settings)
        except WrongLakeError as error:
            sys.exit(f"failed: {error}")


def exit_if_unreadable(settings: Settings) -> None:
    """Query the nameservers and brokers of every cluster for its trace topics, and print one line per failure.

    A run goes on while at least one cluster can be read: the others fail alone. It takes seconds, or a request timeout
    (5 s) where an address does not answer. With a cluster whose credentials are in an Airflow connection nothing is queried.

    Raises:
        SystemExit: no cluster can be read; the message says what, where and what to do.
    """
    from spark_jobs.checks.brokers import query

    if any(cluster.airflow_conn_id for cluster in settings.clusters):
        return  # their secrets are in connections that only Airflow's tasks can read
    answers = query(settings, committed={})
    failures = [f"cluster {name}: {why}" for name, found in answers.items() for why in found.failures]
    if failures and not any(found.seen for found in answers.values()):
        sys.exit("\n".join(f"failed: {line}" for line in failures))
    for line in failures:
        print(f"warning: {line}", file=sys.stderr, flush=True)
