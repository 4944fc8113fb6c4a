"""Real brokers: one of 5.5.0 that every test shares, with Java clients; and one each with ACL, of 4.9.7 and of 4.5.2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sandbox.broker import Sandbox, rocketmq
from spark_jobs.broker_facts.record import Recorded, record
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.settings import BrokerFacts, Cluster, Settings
from tests import lakes
from tests.client_process import ClientProcess
from tests.faults.client.old_broker import broker_4_9
from tests.java_process import java_process
from tests.planning import without_data_tests
from tests.rocketmq.conftest import BUSY_MACHINE
from tests.rocketmq.test_access import ACL_CONF
from tests.soak import IS_SOAK

collect_ignore = [] if IS_SOAK else ["test_causes_of_releases.py"]

SECRET = "the-secret-4711"
# Credentials in the configuration of a broker that does not use them: they are in its answer to GET_BROKER_CONFIG.
WITH_SECRETS = {
    "authenticationMetadataProvider": ACL_CONF["authenticationMetadataProvider"],
    "initAuthenticationUser": f'{{"username":"admin","password":"{SECRET}"}}',
    "innerClientAuthenticationCredentials": f'{{"accessKey":"admin","secretKey":"{SECRET}"}}',
}
# Those of sandbox/broker.conf; the fixture adds level 19, on which a message is not due while a test runs.
DELAY_LEVELS = "1s 2s 1s 2s 2s 3s 3s 3s 5s 5s 5s 5s 10s 10s 10s 10s 10s 10s"
NOT_DUE_LEVEL = len(DELAY_LEVELS.split()) + 1
OLDEST_JARS = Path(__file__).parent / "broker_4_5" / "ivy.xml"
PLAIN_ACL = f"""
globalWhiteRemoteAddresses: []
accounts:
- accessKey: any-valid-user
  secretKey: {SECRET}
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
"""


@pytest.fixture(scope="package", autouse=True)
def no_data_tests() -> Iterator[None]:
    with without_data_tests():
        yield


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    conf = {
        **BUSY_MACHINE,
        **WITH_SECRETS,
        "enablePropertyFilter": "true",
        "timerWheelEnable": "true",
        "recallMessageEnable": "true",
        "messageDelayLevel": f"{DELAY_LEVELS} 1h",
    }
    with rocketmq(tmp_path_factory.mktemp("facts"), extra_broker_conf=conf, stop_in_order=False) as sandbox:
        yield sandbox


@pytest.fixture(scope="package")
def java(broker: Sandbox) -> Iterator[ClientProcess]:
    with java_process("tests.broker_facts.clients", broker.namesrv, broker.folder / "java") as process:
        yield process


@pytest.fixture(scope="package")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The nameserver of a broker of 4.9.7 with the ACL of 4.x and of one of 4.5.2 without."""
    folder = tmp_path_factory.mktemp("old")
    (folder / "namesrv" / "tmp").mkdir(parents=True)
    nameserver = Sandbox(folder / "namesrv")
    nameserver.nameserver.start()
    try:
        for name in ("4.9", "4.5"):
            (folder / name).mkdir()
        with (
            broker_4_9(folder / "4.9", nameserver.namesrv, PLAIN_ACL),
            broker_4_9(folder / "4.5", nameserver.namesrv, None, OLDEST_JARS, "broker-oldest"),
        ):
            yield nameserver.namesrv
    finally:
        nameserver.nameserver.kill()


@pytest.fixture(scope="package")
def facts_lake(spark: SparkSession, settings: Settings) -> Iterator[Settings]:
    """The tables, empty at first; each test uses a cluster name of its own. Offsets are recorded at once."""
    lakes.empty(spark, settings)
    tables.ensure(spark)
    yield settings.model_copy(update={"broker_facts": BrokerFacts(offsets_minutes=0)})
    lakes.empty(spark, settings)


# The tables whose rows are valid at one time only, and its column.
NO_PERIODS = {tables.OBSERVATIONS: "observed_at", tables.MESSAGE_CHECKS: "checked_at"}


@dataclass(frozen=True)
class World:
    """The shared broker as a cluster of a name of its own."""

    settings: Settings
    cluster: Cluster

    def record(self, run_id: str = "run") -> Recorded:
        return record(self.settings, self.cluster, run_id)

    def rows(self, table: tables.Table, *, current: bool = True, **where: Any) -> list[dict[str, Any]]:
        """The cluster's rows with these values, the current ones unless all are asked for, by valid_from."""
        rows = lake(self.settings).load_table(table.name).scan().to_arrow().to_pylist()
        wanted = {"cluster": self.cluster.name, **where}
        found = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
        for without_periods, time in NO_PERIODS.items():
            if table == without_periods:
                return sorted(found, key=lambda row: row[time])
        return sorted(
            (row for row in found if not current or row["valid_to"] is None),
            key=lambda row: row["valid_from"],
        )

    def everything(self) -> dict[str, list[str]]:
        """All rows of the tables of intervals, as text."""
        return {
            table.name: sorted(map(str, self.rows(table, current=False)))
            for table in tables.ALL
            if table.name.startswith("broker_facts.") and table not in NO_PERIODS
        }


@pytest.fixture
def world(facts_lake: Settings, broker: Sandbox, request: pytest.FixtureRequest) -> World:
    return World(facts_lake, Cluster(name=request.node.name.partition("[")[0], namesrv=[broker.namesrv]))
