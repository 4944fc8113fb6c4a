"""Files that repeat values of other files: versions, licences, folders of tests, tools."""

from __future__ import annotations

import re
import shlex
import tomllib
from configparser import ConfigParser
from email import message_from_string

import pytest
import yaml

from docs import licences
from spark_jobs.lake import jars
from spark_jobs.settings import PROJECT

VERSION = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]


def test_the_version_is_that_of_pyproject():
    assert yaml.safe_load((PROJECT / "dbt_project" / "dbt_project.yml").read_text())["version"] == VERSION
    assert f"## [{VERSION}]" in (PROJECT / "CHANGELOG.md").read_text()


def test_the_metadata_of_the_provider_are_those_of_its_wheel():
    wheel = tomllib.loads((PROJECT / "provider" / "pyproject.toml").read_text())["project"]
    (about,) = (PROJECT / "provider").glob("*.dist-info")
    assert about.name == f"airflow_provider_rocketmq-{wheel['version']}.dist-info"
    found = message_from_string((about / "METADATA").read_text())
    assert (found["Name"], found["Version"]) == (wheel["name"], wheel["version"])
    points = ConfigParser()
    points.read(about / "entry_points.txt")
    assert {name: dict(points[name]) for name in points.sections()} == wheel["entry-points"]


def test_the_licences_are_up_to_date():
    assert licences.PAGE.read_text() == licences.render(), "run `make licences`"


def test_every_package_of_the_lock_is_on_the_page():
    """Independent of how the page is made."""
    page = licences.PAGE.read_text()
    locks = licences.LOCK.read_text() + licences.DASHBOARDS_LOCK.read_text()
    lines = [line for line in locks.splitlines() if re.match(r"[a-z0-9]", line)]
    # Those with another condition are for other platforms, or were taken out.
    always = [line.split()[0].split("==") for line in lines if " ; " not in line]
    assert len(always) > 300
    assert [name for name, version in always if f"| {name} | {version} | " not in page] == []
    assert jars.jars(jars.SPARK)
    assert page.count("| org.apache.rocketmq:rocketmq-broker | 5.5.0 | Apache-2.0 |") == 1


def workflow() -> dict:
    return yaml.safe_load((PROJECT / ".github" / "workflows" / "ci.yml").read_text())


def test_the_workflow_runs_every_folder_of_tests_once():
    shards = workflow()["jobs"]["test"]["strategy"]["matrix"]["tests"]
    given = [word for shard in shards for word in shlex.split(shard)]
    covered = sorted(
        str(file.relative_to(PROJECT)) for word in given for file in (PROJECT / word).rglob("test_*.py")
    )
    assert covered == sorted(
        str(file.relative_to(PROJECT)) for file in (PROJECT / "tests").rglob("test_*.py")
    )


def test_the_workflow_and_the_hooks_call_existing_targets():
    runs = [step["run"] for job in workflow()["jobs"].values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    called = {name for run in runs for name in re.findall(r"\bmake ([a-z-]+)", run)}
    assert called == {"lint", "test"}
    assert called <= targets
    hooks = yaml.safe_load((PROJECT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    programs = {each["entry"].split()[0] for each in hooks}
    assert programs == {".venv/bin/ruff", ".venv/bin/mypy", "git"}
    recipe = (PROJECT / "Makefile").read_text()
    assert all(program in recipe for program in programs - {"git"})


@pytest.mark.parametrize("file", sorted((PROJECT / ".github").rglob("*.yml")), ids=lambda file: file.name)
def test_configuration_of_github_is_yaml(file):
    assert yaml.safe_load(file.read_text())
