"""A lake, and a folder with a backup of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.backup import make
from spark_jobs.jobs.merge import merge_all
from spark_jobs.lake import tables
from spark_jobs.settings import Settings
from tests import lakes
from tests.backup.world import NAMED
from tests.soak import IS_SOAK
from tests.spark.stored import RECORD, messages, planned, write

# They build marts twice, and start some thirty jobs.
collect_ignore = [] if IS_SOAK else ["test_later_erasures.py", "test_interrupted.py"]


@pytest.fixture(scope="module")
def original(spark, settings) -> Settings:
    """A lake with several snapshots, a branch, a view, and files of Airflow beside it."""
    lakes.empty(spark, settings)
    tables.ensure(spark)
    for start in (0, 20):
        write(
            spark,
            settings,
            messages(spark, start, start + 20, NAMED + RECORD),
            planned(start, start + 20),
            "run",
        )
        merge_all(spark, settings, f"run {start}")
    spark.sql(f"alter table {tables.RAW.full_name} create branch kept")
    spark.sql(
        "create or replace view lake.ops.shown as select count(*) as messages from lake.raw.trace_messages"
    )
    airflow = settings.home / "airflow"
    airflow.mkdir(exist_ok=True)
    (airflow / "fernet-key").write_text("secret")
    return settings


@pytest.fixture(scope="module")
def root(original, tmp_path_factory) -> Path:
    """A folder with a backup."""
    root = tmp_path_factory.mktemp("backups")
    make.make(original, root, lambda size: None)
    return root
