"""A restore applies what was erased after the backup. Runs in `make soak`."""

from __future__ import annotations

import pytest

from spark_jobs.backup.erasures import JOURNAL
from spark_jobs.erasure.rules import Kind
from spark_jobs.jobs.erase import erase
from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake
from spark_jobs.settings import Settings
from tests.backup.world import KEY, job
from tests.maintenance.files import holding


@pytest.mark.timeout(900)
def test_an_erasure_after_the_back_up_is_applied_before_anything_reads(original, spark, root, tmp_path):
    erase(spark, original, "c", Kind.KEY, KEY, "erase")
    assert KEY not in (root / JOURNAL).read_text(), "a hash, not the text"
    home = tmp_path / "home"
    assert holding(root / "files", KEY)
    done = job("restore", home, "--from", root)
    assert done.returncode == 0, done.stderr
    assert "1 later erasures were applied" in " ".join(done.stderr.split())
    assert holding(home, KEY) == []
    assert lake(Settings(home=home)).load_table(tables.EVENTS.name).scan().count() > 0
