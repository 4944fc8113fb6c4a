"""Java libraries: one download at a time into the shared cache, and committed checksums."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from sandbox.releases import NEWEST
from spark_jobs.lake import jars
from spark_jobs.settings import PROJECT

FETCH = "from spark_jobs.lake import jars; jars.fetch(jars.LINEAGE)"


def test_every_set_has_checksums():
    ivy_files = [
        file for folder in ("spark_jobs", "sandbox", "tests") for file in (PROJECT / folder).rglob("ivy.xml")
    ]
    assert len(ivy_files) > 3
    for ivy_file in ivy_files:
        assert jars.expected_checksums(ivy_file), ivy_file


@pytest.mark.parametrize("ivy_file", [jars.SPARK, jars.LINEAGE, NEWEST.ivy_file])
def test_the_jars_in_use_have_the_committed_checksums(ivy_file):
    assert jars.checksums(jars.jars(ivy_file)) == jars.expected_checksums(ivy_file)


def test_two_set_ups_at_once_on_an_empty_cache(tmp_path):
    environment = os.environ | {"TRACE_CACHE": str(tmp_path), "PYTHONPATH": str(PROJECT)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", FETCH], env=environment, stderr=subprocess.PIPE, text=True, cwd=PROJECT
        )
        for _ in range(2)
    ]
    output = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], output
    assert sum("fetching the jars of spark_jobs/lineage/ivy.xml" in each for each in output) == 1, output
    assert sum("waiting for another process that fetches jars" in each for each in output) <= 1
    (fetched,) = (tmp_path / "jars").iterdir()
    assert jars.checksums(list(fetched.glob("*.jar"))) == jars.expected_checksums(jars.LINEAGE)


def test_a_jar_with_another_checksum_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACE_CACHE", str(tmp_path / "cache"))
    (found,) = jars.expected_checksums(jars.LINEAGE)
    for name in ("ivy.xml", "ivy.sha256"):
        shutil.copy(jars.LINEAGE.with_name(name), tmp_path)
    (tmp_path / "ivy.sha256").write_text(f"{'0' * 64}  {found}\n")
    with pytest.raises(SystemExit, match=f"{found}: expected {'0' * 64}, found [0-9a-f]{{64}}"):
        jars.fetch(tmp_path / "ivy.xml")
    assert not jars.folder(tmp_path / "ivy.xml").exists()
