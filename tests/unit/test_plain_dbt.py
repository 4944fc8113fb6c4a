"""dbt's own commands work in a fresh clone without vars, without a Spark session and without a table."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.mart_build.definitions import DBT_PROJECT

DBT = Path(sys.executable).with_name("dbt")
COMPILED = Path("dbt_project", "target", "compiled", "trace_warehouse", "models")
FROM_THE_ROOT = ("--project-dir", "dbt_project", "--profiles-dir", "dbt_project")


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """The root of a clone that holds the dbt project only, without what dbt wrote into it."""
    root = tmp_path_factory.mktemp("clone")
    ignored = shutil.ignore_patterns("target", "logs")
    shutil.copytree(DBT_PROJECT, root / "dbt_project", ignore=ignored)
    return root


def dbt(folder: Path, *command: str) -> str:
    """Run dbt in a process that finds no Java, so that a Spark session cannot start; returns what it prints."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("DBT_", "SPARK_"))}
    ran = subprocess.run(
        [DBT, *command],
        cwd=folder,
        env=own | {"JAVA_HOME": "/nonexistent"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def models() -> set[str]:
    return {file.stem for file in (DBT_PROJECT / "models").rglob("*.sql")}


def test_parse_and_ls_know_every_model(clone):
    dbt(clone, "parse", *FROM_THE_ROOT)
    listed = dbt(clone, "--quiet", "ls", "--resource-type", "model", "--output", "name", *FROM_THE_ROOT)
    assert set(listed.split()) == models()
    assert len(models()) > 70


def test_ls_works_in_the_folder_of_the_project(clone):
    listed = dbt(clone / "dbt_project", "--quiet", "ls", "--select", "int_kept_messages")
    assert listed.split() == ["trace_warehouse.incremental.int_kept_messages"]


def test_compile_renders_a_model(clone):
    dbt(clone, "compile", "--select", "fct_consume_attempts", *FROM_THE_ROOT)
    statement = (clone / COMPILED / "marts" / "facts" / "fct_consume_attempts.sql").read_text()
    assert "interval '1800' second" in statement  # consume timeout and grace


def test_docs_generate_compiles_and_describes_every_model(clone):
    dbt(clone, "docs", "generate", *FROM_THE_ROOT)
    # The folder `<model>.yml` has the model's data tests.
    compiled = {file.stem for file in (clone / COMPILED).rglob("*.sql") if file.parent.suffix != ".yml"}
    assert compiled == models()
    manifest = json.loads((clone / "dbt_project" / "target" / "manifest.json").read_text())
    described = {
        node["name"]
        for node in manifest["nodes"].values()
        if node["resource_type"] == "model" and node["description"]
    }
    assert described == models()
    assert json.loads((clone / "dbt_project" / "target" / "catalog.json").read_text())["errors"] is None
