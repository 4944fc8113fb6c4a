"""Maintenance, erasure, reading and a killed worker beyond one machine; one after the other. Runs in `make soak`."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox.broker import TRACE_TOPIC
from spark_jobs.lake.catalog import lake
from spark_jobs.serving.build import build
from spark_jobs.settings import PROJECT
from tests.cluster.s3 import BUCKET, FAKETIME
from tests.cluster.world import BODIES, GUARDED, SHOP, Deployment, finished, run
from tests.faults.jobs.bodies import body, pieces
from tests.maintenance.files import holding
from tests.rocketmq import java_client
from tests.rocketmq.test_access import ADMIN

pytestmark = pytest.mark.usefixtures("secrets")


def rows(deployment: Deployment, table: str) -> list[dict]:
    return lake(deployment.settings).load_table(table).scan().to_arrow().to_pylist()


@pytest.mark.skipif(FAKETIME is None, reason="libfaketime is missing: apt-get install libfaketime")
def test_maintenance_removes_a_planted_orphan_file_and_nothing_else(on_postgres: Deployment):
    """Orphan files younger than a day may belong to a running commit."""
    planted = {f"warehouse/raw/trace_messages/data/{age}.parquet" for age in ("5d", "1m")}
    for key in planted:
        on_postgres.store.put(key, b"left by a killed writer", age=Path(key).stem)
    job = on_postgres.run("maintain")
    assert job.code == 0, job.output[-4000:]
    after = set(on_postgres.store.keys())
    assert planted & after == {key for key in planted if "1m" in key}
    for name in ("raw.trace_messages", "events.trace_records"):
        table = lake(on_postgres.settings).load_table(name)
        paths = table.inspect.all_files()["file_path"].to_pylist()
        assert paths
        assert {path.removeprefix(f"s3://{BUCKET}/") for path in paths} <= after


def test_an_erasure_leaves_no_byte_in_the_bucket(on_postgres: Deployment, tmp_path: Path):
    records = rows(on_postgres, "events.trace_records")
    key = next(each["keys"] for each in records if each["cluster"] == GUARDED and each["keys"])
    prefix = "warehouse/"
    on_postgres.store.download(prefix, tmp_path / "before")
    assert holding(tmp_path / "before", key)
    run(on_postgres, ("erase", "--cluster", GUARDED, "--key", key, "--yes"))
    on_postgres.store.download(prefix, tmp_path / "after")
    assert holding(tmp_path / "after", key) == []
    assert len(rows(on_postgres, "events.trace_records")) < len(records)


def test_the_serving_file_reads_the_bucket(on_postgres: Deployment):
    """`make sql` on a table that is read in place."""
    settings = on_postgres.settings
    in_place = settings.model_copy(update={"serving": settings.serving.model_copy(update={"copied_rows": 0})})
    build(in_place, from_scratch=True)
    shell = subprocess.run(
        [sys.executable, "-m", "spark_jobs.serving.sql", "--format", "csv", "--query"]
        + ["select count(*) as sends from marts.fct_sends"],
        env={**os.environ, **on_postgres.variables()},
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    count = lake(settings).load_table("marts.fct_sends").scan().to_arrow().num_rows
    assert shell.stdout.split() == ["sends", str(count)], shell.stderr
    assert count > 0


def test_a_worker_killed_during_the_merge_loses_nothing(on_postgres: Deployment, tmp_path: Path):
    """Spark repeats its tasks on the other worker."""
    more = [base64.b64encode(body(number)).decode() for number in range(BODIES, BODIES + 3000)]
    admin = [ADMIN.access_key, ADMIN.secret_key]  # with credentials the client creates no topic
    write = {
        "do": "produce",
        "topic": TRACE_TOPIC,
        "broker": "broker-a",
        "bodies": more,
        "credentials": admin,
    }
    java_client.run(on_postgres.settings.clusters[0].namesrv[0], tmp_path, [write])
    run(on_postgres, ("extract", "--cluster", SHOP))
    spark, before = on_postgres.spark, on_postgres.spark.applications()
    merge = on_postgres.start("merge")

    def is_at_work() -> bool:
        logs = [log for app in spark.applications() - before for log in spark.executor_logs(app)[1:]]
        return any("Running task" in log for log in logs)

    give_up = time.monotonic() + 120
    while not is_at_work():
        assert time.monotonic() < give_up
        assert merge.poll() is None
        time.sleep(0.05)
    spark.kill_worker(1)
    job = finished(merge)
    assert job.code == 0, job.output[-6000:]
    catalog = lake(on_postgres.settings)
    raw = catalog.load_table("raw.trace_messages").scan().to_arrow()
    records = catalog.load_table("events.trace_records").scan().to_arrow()
    assert raw.num_rows > 3000
    assert sum(map(pieces, raw["body"].to_pylist())) == records.num_rows
