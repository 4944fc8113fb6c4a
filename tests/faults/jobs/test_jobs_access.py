"""Wrong credentials, and too few permissions: the job says so and ends, and the secret is written nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandbox.broker import TRACE_TOPIC, Sandbox, rocketmq
from spark_jobs.alerts.alert import advance
from spark_jobs.checks import check as checks
from spark_jobs.checks.evaluate import evaluate
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.lake import catalog
from spark_jobs.lake.tables import RAW
from spark_jobs.settings import Cluster, Settings
from tests.faults.jobs.world import CLUSTER, World
from tests.maintenance.files import holding
from tests.rocketmq.java_client import run as run_java
from tests.rocketmq.test_access import ACL_CONF, ADMIN

SECRETS = {"reader": "a-reader-secret-81f3", "stranger": "a-stranger-secret-5d20"}
WRONG = "a-wrong-secret-c77e"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A broker that lets `reader` read the trace topic, and `stranger`, whom it knows, another one."""
    folder = Path(tmp_path_factory.mktemp("guarded"))
    with rocketmq(folder, extra_broker_conf=ACL_CONF, stop_in_order=False) as sandbox:
        grants = [
            {
                "do": "grant",
                "broker": sandbox.broker_address,
                "admin": [ADMIN.access_key, ADMIN.secret_key],
                "user": [name, SECRETS[name]],
                "resources": [f"Topic:{topic}", "Group:TOOLS_CONSUMER"],
            }
            for name, topic in (("reader", TRACE_TOPIC), ("stranger", "another"))
        ]
        run_java(sandbox.namesrv, folder / "java", grants)
        yield sandbox


@pytest.fixture
def guarded_world(guarded: Sandbox, settings: Settings, tmp_path: Path) -> World:
    """The guarded broker's trace topic, and a warehouse of its own."""
    home = Settings(home=tmp_path / "home", spark=settings.spark)
    cluster = Cluster(name=CLUSTER, namesrv=[guarded.namesrv], credentials_env="FAULTS")
    clusters = json.dumps([cluster.model_dump(exclude_none=True)])
    return World(None, home, guarded, None, [TRACE_TOPIC], extra={"TRACE_CLUSTERS": clusters})


def test_who_may_not_read_and_who_may(guarded_world: World):
    """Nobody's secret is left anywhere, neither by the runs that are refused nor by the one that succeeds, which is the last."""
    says = {"wrong-secret": "signature", "unknown-user": "nobody", "no-permission": "stranger"}
    users = {
        "wrong-secret": ("reader", WRONG),
        "unknown-user": ("nobody", WRONG),
        "no-permission": ("stranger", SECRETS["stranger"]),
        "permitted": ("reader", SECRETS["reader"]),
    }
    run = guarded_world.run(
        "tests.faults.jobs.in_turn",
        CLUSTER,
        IN_TURN=json.dumps(users),
        FAULTS_ACCESS_KEY="reader",
        FAULTS_SECRET_KEY=SECRETS["reader"],
    )
    print(run.output)
    assert run.code == 0
    rest = run.output
    for case, word in says.items():
        output, found, rest = rest.partition(f"{case} ended with 1\n")
        assert found, case
        assert word in output
        output = " ".join(output.split())
        assert f"broker {guarded_world.sandbox.broker_name}" in output
        assert f"topic {TRACE_TOPIC}" in output
    assert rest.endswith("permitted ended with 0\n")
    snapshots = catalog.lake(guarded_world.settings).load_table(RAW.name).snapshots()
    assert guarded_world.rows(RAW, "queue_offset") == []

    for secret in {secret for _, secret in users.values()}:
        assert secret not in run.output
        assert holding(guarded_world.settings.home, secret) == []
        assert all(secret not in str(snapshot.summary) for snapshot in snapshots)
    assert holding(guarded_world.settings.home, "trace.offsets")  # the search finds what is there


@pytest.mark.parametrize(
    ("name", "secret", "says"),
    [
        ("reader", WRONG, "does not accept the credentials"),
        ("nobody", WRONG, "does not accept the credentials"),
        ("stranger", SECRETS["stranger"], "does not permit reading"),
    ],
    ids=["wrong-secret", "unknown-user", "no-permission"],
)
def test_the_alert_says_once_what_is_refused(
    guarded_world: World, monkeypatch, name: str, secret: str, says: str
):
    """As when a key or a permission was changed while all of it runs."""
    monkeypatch.setenv("FAULTS_ACCESS_KEY", name)
    monkeypatch.setenv("FAULTS_SECRET_KEY", secret)
    clusters = [Cluster(name=CLUSTER, namesrv=[guarded_world.sandbox.namesrv], credentials_env="FAULTS")]
    home = guarded_world.settings.home
    home.mkdir()
    run = checks.Run(Settings(home=home, environment="prod", clusters=clusters), datetime.now(UTC))
    (alert,) = advance([], evaluate([BY_NAME["lag"]], run), run.settings, run.now)
    refused = (
        f"prod/{CLUSTER}: could not be checked: lag: broker {guarded_world.sandbox.broker_name} {says}: "
    )
    assert alert.summary.startswith(refused)
    assert alert.description.count(says) == 1
    assert secret not in alert.description
