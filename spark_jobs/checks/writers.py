"""The check of who writes the traces: hosts that wrote trace messages, against those from which clients were connected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import reduce

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from spark_jobs.broker_facts.parse import host_of
from spark_jobs.broker_facts.requests import (
    GET_ALL_PRODUCER_INFO,
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    GET_CONSUMER_CONNECTION_LIST,
)
from spark_jobs.checks.check import Measured, Run, check, rate
from spark_jobs.lake.tables import CLIENT_HOSTS, OBSERVATIONS, RAW, Table

JUDGED = timedelta(hours=1)
# Between collections further apart, too many clients come and go unseen.
REGULAR = timedelta(minutes=15)

Period = tuple[datetime, datetime]


@check(
    RAW.name,
    "{value} of the trace messages of {cluster} were written from hosts without a known client",
    kind="messaging",
    stage="merge",
    severity="warning",
    entity="cluster",
    limit="unknown_writers",
    unit="share",
)
def unknown_writers(run: Run) -> Iterator[Measured]:
    """Too many trace messages were written from hosts from which no broker saw a client.

    Measured per cluster whose brokers said who was connected: the share of the messages that were stored in the hour before
    the last collection of broker facts, while collections were at most 15 minutes apart.
    """
    asked = _asked(run)
    written = _written(run, {cluster: period for cluster, period in asked.items() if period})
    seen = _seen(run)
    for cluster, period in sorted(asked.items()):
        if period is None:
            yield Measured(cluster, None, "the brokers did not say which clients are connected", "unknown")
            continue
        hosts = written.get(cluster, {})
        unknown = sorted(hosts.keys() - seen[cluster], key=lambda host: (-hosts[host], host))
        what = "trace messages were written from hosts without a known client"
        if unknown:
            what += f": {', '.join(f'{host} ({hosts[host]})' for host in unknown[:10])}"
        yield rate(cluster, sum(hosts[host] for host in unknown), sum(hosts.values()), what, run.settings)


def _asked(run: Run) -> dict[str, Period | None]:
    """Per cluster, the period that is judged; None if a broker did not say at its last collection who was connected."""
    rows = (
        _table(run, OBSERVATIONS)
        .where(F.col("observed_at") >= F.lit(_since(run)))
        .groupBy("cluster", "broker")
        .agg(
            F.collect_set("observed_at").alias("times"), F.max_by("requests", "observed_at").alias("requests")
        )
        .collect()
    )
    times: dict[str, set[datetime]] = defaultdict(set)
    for row in rows:
        times[row.cluster].update(time.astimezone(UTC) for time in row.times)
    silent = {row.cluster for row in rows if not _says_who_is_connected(row.requests)}
    return {cluster: None if cluster in silent else _period(found) for cluster, found in times.items()}


def _period(collections: set[datetime]) -> Period:
    """From the first to the last of the regular collections of the last hour; empty if there was one only."""
    begin = end = max(collections)
    for time in sorted(collections, reverse=True):
        if begin - time > REGULAR or end - time > JUDGED:
            break
        begin = time
    return begin, end


def _says_who_is_connected(requests: list[Row]) -> bool:
    counts = {each.code: each for each in requests}
    lists = (GET_ALL_PRODUCER_INFO, GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    if not all(code in counts and counts[code].answered for code in lists):
        return False
    consumers = counts.get(GET_CONSUMER_CONNECTION_LIST)  # missing: there are no groups
    return consumers is None or not (
        consumers.refused or consumers.unsupported or consumers.timed_out or consumers.failed
    )


def _written(run: Run, periods: dict[str, Period]) -> dict[str, dict[str, int]]:
    """Per cluster and host, the messages that were stored in the period."""
    if not periods:
        return {}
    judged = [
        (F.col("cluster") == cluster)
        & (F.col("store_time") >= F.lit(begin))
        & (F.col("store_time") < F.lit(end))
        for cluster, (begin, end) in periods.items()
    ]
    rows = (
        _table(run, RAW)
        .where(reduce(lambda one, other: one | other, judged))
        .groupBy("cluster", F.regexp_replace("born_host", ":[0-9]+$", "").alias("host"))
        .agg(F.count("*").alias("messages"))
        .collect()
    )
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        if row.host is not None:
            found[row.cluster][host_of(f"{row.host}:0")] += row.messages
    return found


def _seen(run: Run) -> dict[str, set[str]]:
    """Per cluster, the hosts from which clients were connected in the last `window_hours`."""
    rows = (
        _table(run, CLIENT_HOSTS)
        .where(F.col("valid_to").isNull() | (F.col("valid_to") >= F.lit(_since(run))))
        .select("cluster", "host")
        .distinct()
        .collect()
    )
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row.cluster].add(row.host)
    return found


def _table(run: Run, table: Table) -> DataFrame:
    assert run.spark is not None
    return run.spark.table(table.full_name)


def _since(run: Run) -> datetime:
    return run.now - timedelta(hours=run.settings.checks.window_hours)
