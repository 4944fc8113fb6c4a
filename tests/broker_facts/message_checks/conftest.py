"""Two messages and a group in each state, and the marts that name suspects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sandbox.broker import Sandbox
from spark_jobs.settings import Settings
from tests.broker_facts.message_checks import suspected
from tests.client_process import ClientProcess

TOPIC = "checked"
BODY = "the-body-4711"


@pytest.fixture(scope="package")
def marts(spark: SparkSession, facts_lake: Settings) -> None:
    """The published marts that name suspects, empty."""
    suspected.make(spark)


@pytest.fixture(scope="package")
def sent(broker: Sandbox, java: ClientProcess, marts: None) -> Iterator[dict[str, dict[str, Any]]]:
    """Two messages of a topic: the first one reached each group in another way, the last one not those that read no more."""
    java("make_topic", topic=TOPIC, address=broker.broker_address, queues=1)
    groups = {
        "reads-all": {"tags": {TOPIC: "*"}},
        "reads-b": {"tags": {TOPIC: "b"}},
        "reads-sql": {"tags": {}, "sql": {TOPIC: "number < 10"}},
        "pauses": {"tags": {TOPIC: "*"}},
        "stops": {"tags": {TOPIC: "*"}},
        "broadcasts": {"tags": {TOPIC: "*"}, "broadcast": True},
        "gives-up": {"tags": {TOPIC: "*"}, "fails": True, "most_retries": 0},
        "tries-again": {"tags": {TOPIC: "*"}, "fails": True, "most_retries": 1000, "retry_level": 18},
    }
    for group, given in groups.items():
        java("consume", group=group, **given)
    first = java("send_one", topic=TOPIC, tag="a", body=BODY)
    for group in ("reads-all", "pauses", "stops", "broadcasts", "gives-up", "tries-again"):
        java("wait_for", group=group, count=1)
    for group in groups.keys() - {"broadcasts"}:
        java("wait_until_committed", group=group, queues=1)
    java("suspend", group="pauses")
    java("stop", group="stops")
    java("send_one", topic=TOPIC, tag="a", body=BODY)  # the pull that waits at the broker still gets it
    java("wait_for", group="pauses", count=2)
    last = java("send_one", topic=TOPIC, tag="a", body=BODY)
    java("wait_for", group="reads-all", count=3)
    java("wait_until_committed", group="reads-all", queues=1)
    yield {"first": first, "last": last}
    for group in groups.keys() - {"stops"}:
        java("stop", group=group)
