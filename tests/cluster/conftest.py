"""A pipeline that shares nothing: Spark workers that see no file of this machine, Postgres as catalog, S3 as warehouse."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import psycopg2
import pytest

from sandbox.broker import TRACE_TOPIC, rocketmq
from sandbox.network import Network
from sandbox.network import network as connected
from sandbox.postgres import postgres_programs, running_postgres
from sandbox.spark_cluster import WORKERS, standalone
from sandbox.traffic import generate
from spark_jobs.lake import jars
from spark_jobs.settings import Catalog, Cluster, Extract, Settings
from spark_jobs.settings_deployment import Spark, Warehouse
from tests.cluster.s3 import BUCKET, REGION, Store, moto
from tests.cluster.world import (
    AT_ONCE,
    BODIES,
    BROKER_SECRETS,
    CONNECTIONS,
    GUARDED,
    SHOP,
    SMALL,
    Deployment,
    Watch,
    finished,
    run,
)
from tests.faults.jobs.bodies import body
from tests.rocketmq import java_client
from tests.rocketmq.test_access import ACL_CONF, ADMIN, READER
from tests.soak import IS_SOAK

collect_ignore = [] if IS_SOAK else ["test_executors.py", "test_marts.py", "test_upkeep.py"]


@pytest.fixture(scope="package")
def network() -> Iterator[Network]:
    with connected(WORKERS) as found:
        yield found


@pytest.fixture(scope="package")
def clusters(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Cluster]]:
    """Two RocketMQ clusters: one of two brokers, in soak with the traffic of real clients; and one with an ACL."""
    folder = tmp_path_factory.mktemp("clusters")
    broker = partial(rocketmq, host=network.host, stop_in_order=False)
    with ExitStack() as stack:
        shop = stack.enter_context(broker(folder / "a"))
        guarded = stack.enter_context(broker(folder / "guarded", extra_broker_conf=ACL_CONF))
        if IS_SOAK:
            # A consumer that broadcasts misses what is sent before it knows of a broker.
            generate(shop.namesrv, 40, folder / "record")
        stack.enter_context(broker(folder / "b", broker_name="broker-b", join=shop.namesrv))
        admin = [ADMIN.access_key, ADMIN.secret_key]
        write = {"do": "produce", "topic": TRACE_TOPIC, "credentials": admin}
        # What is erased of one cluster is not in the other.
        of_guarded, of_shop = (
            {"bodies": [base64.b64encode(body(start + number)).decode() for number in range(BODIES)]}
            for start in (100_000, 0)
        )
        grant = {
            "do": "grant",
            "broker": guarded.broker_address,
            "admin": admin,
            "user": [READER.access_key, READER.secret_key],
            "resources": [f"Topic:{TRACE_TOPIC}", "Group:TOOLS_CONSUMER"],
            "addresses": [network.host, *network.workers],
        }
        java_client.run(guarded.namesrv, folder / "java", [grant, write | of_guarded])
        brokers = [write | of_shop | {"broker": name} for name in ("broker-a", "broker-b")]
        java_client.run(shop.namesrv, folder / "java-b", brokers)
        yield [
            Cluster(name=SHOP, namesrv=[shop.namesrv]),
            Cluster(name=GUARDED, namesrv=[guarded.namesrv], credentials_env="GUARDED"),
        ]


@pytest.fixture(scope="package")
def store(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with moto(tmp_path_factory.mktemp("s3"), network.host) as running:
        yield running


@pytest.fixture(scope="package")
def postgres(network: Network) -> Iterator[int]:
    if postgres_programs() is None:
        pytest.skip("Postgres is missing: apt-get install postgresql")
    with running_postgres(CONNECTIONS, network.host) as port:
        connection = psycopg2.connect(host=network.host, port=port, user="postgres", dbname="postgres")
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("create database iceberg")
        connection.close()
        yield port


@pytest.fixture(scope="package")
def deployment(
    network: Network,
    clusters: list[Cluster],
    store: Store,
    postgres: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Deployment]:
    """A pipeline of two clusters on two workers, with an empty catalog and an empty bucket."""
    jars.fetch(jars.S3)
    with standalone(network, BROKER_SECRETS) as spark:
        settings = Settings(
            home=tmp_path_factory.mktemp("home"),
            clusters=clusters,
            extract=Extract(margin_seconds=0),
            limits=AT_ONCE,
            catalog=Catalog(
                kind="postgres",
                uri=f"jdbc:postgresql://{network.host}:{postgres}/iceberg",
                credentials_env="LAKE",
            ),
            warehouse=Warehouse(
                uri=f"s3://{BUCKET}/warehouse",
                endpoint=store.endpoint,
                region=REGION,
                path_style=True,
                credentials_env="STORE",
            ),
            # Where all tests run at once, jobs are slow, and one waits for the cores of others.
            spark=Spark(
                master=spark.master,
                driver_host=network.host,
                cores_max=WORKERS,
                conf=SMALL,
                executor_seconds=1200,
            ),
        )
        yield Deployment(settings, spark, store, (network.host, postgres))


@pytest.fixture
def secrets(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secrets of the lake are in this process's environment."""
    for name, value in deployment.secrets.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="package")
def extracted(deployment: Deployment) -> Watch:
    """Two extractions of one cluster at once, and one of the other; the catalog and the bucket are empty."""
    # The third waits for a core while the first two work.
    one_core = deployment.settings.spark.model_copy(update={"cores_max": 1})
    with Watch(deployment) as watch:
        jobs = [
            deployment.changed(spark=one_core).start("extract", "--cluster", name)
            for name in (SHOP, SHOP, GUARDED)
        ]
        ended = [finished(job) for job in jobs]
    for job in ended:
        assert job.code == 0, job.output[-4000:]
    return watch


@pytest.fixture(scope="package")
def merged(deployment: Deployment, extracted: Watch) -> set[str]:
    """The applications of a merge."""
    before = deployment.spark.applications()
    job = deployment.run("merge")
    assert job.code == 0, job.output[-4000:]
    return deployment.spark.applications() - before


@pytest.fixture(scope="package")
def on_postgres(deployment: Deployment, merged: set[str]) -> Deployment:
    """The deployment, with marts."""
    with deployment.store.trusting():
        run(deployment, ("marts",))
    return deployment
