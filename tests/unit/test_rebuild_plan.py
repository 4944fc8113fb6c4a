"""The copy of the published models, and what a rebuild is expected to take."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.mart_build import durations, parsed, projects
from spark_jobs.mart_build.definitions import Definitions, Node
from spark_jobs.mart_build.rebuild import MOST_MODELS, MOST_SECONDS, _grouped
from spark_jobs.mart_build.rebuild_report import _why, _with_working_tables
from spark_jobs.settings import Limits

NODES = {
    "seed": Node("seed", "seed", "1"),
    "fact": Node("fact", "audited_table", "1", ("working",), "marts.fact"),
    "working": Node("working", "working_table", "1", ("inlined",)),
    "inlined": Node("inlined", "ephemeral", "1", ("other",)),
    "other": Node("other", "audited_table", "1", ("seed",), "marts.other"),
    "daily": Node("daily", "audited_table", "1", ("fact",), "marts.daily"),
}


def test_the_estimate_is_in_proportion_to_the_records(tmp_path):
    assert durations.estimate(tmp_path, ["fact"], 7) == {}
    durations.record(tmp_path, {"fact": 10.0, "daily": 2.0}, 1000)
    durations.record(tmp_path, {"daily": 3.0}, 2000)
    assert durations.estimate(tmp_path, ["fact", "daily", "new"], 4000) == {"fact": 40.0, "daily": 6.0}


@given(st.lists(st.none() | st.sampled_from([0.0, 59.0, 60.0, 61.0]) | st.floats(0, 100), max_size=30))
def test_a_step_is_short(seconds):
    names = [str(number) for number in range(len(seconds))]
    known = {name: each for name, each in zip(names, seconds, strict=True) if each is not None}
    groups = _grouped(names, known)
    assert [name for group in groups for name in group] == names
    for group in groups:
        assert 1 <= len(group) <= MOST_MODELS
        assert len(group) == 1 or sum(known.get(name, MOST_SECONDS) for name in group) <= MOST_SECONDS


def test_a_publication_keeps_a_copy_of_its_project_and_no_other(tmp_path):
    project, state = tmp_path / "dbt_project", tmp_path / "state"
    for name in ("models/fact.sql", "models/fact.yml", "seeds/seed.csv", "target/fact.sql", "models/a.pyc"):
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    limits = Limits(grace_seconds=7)
    projects.keep(state, project, limits, "old")
    projects.keep(state, project, limits, "new")
    (kept,) = (state / "published").iterdir()
    assert kept.name == "new"
    found = sorted(str(file.relative_to(kept)) for file in kept.rglob("*.*"))
    assert found == [
        *("dbt_project/models/fact.sql", "dbt_project/models/fact.yml", "dbt_project/seeds/seed.csv"),
        "limits.json",
    ]
    assert Limits.model_validate_json((kept / "limits.json").read_text()) == limits
    projects.keep(state, kept / "dbt_project", limits, "new")  # a build of the copy itself
    assert (kept / "dbt_project" / "models" / "fact.sql").read_text() == "models/fact.sql"


def test_the_parsed_files_of_old_versions_are_removed(tmp_path):
    for number in range(parsed._KEPT + 2):
        for kind in ("00-1.msgpack", "10-1.msgpack", "definitions.json"):
            file = tmp_path / f"version{number}-{kind}"
            file.touch()
            os.utime(file, (number, number))
    os.utime(tmp_path / "version0-definitions.json", (100, 100))  # that of the published marts is read again
    parsed._remove_old(tmp_path)
    assert {file.name.partition("-")[0] for file in tmp_path.iterdir()} == {
        "version0",
        "version3",
        "version4",
        "version5",
    }
    assert len([*tmp_path.iterdir()]) == 12


def test_why_a_table_is_rebuilt_and_what_that_needs():
    definitions = Definitions(NODES)
    assert _with_working_tables(definitions, {"fact", "daily"}) == {"fact", "daily", "working"}
    assert _why(definitions, "other", {"other", "fact", "daily"}) == "it has changed"
    assert _why(definitions, "fact", {"other", "fact", "daily"}) == "reads other"
    assert _why(definitions, "daily", {"other", "fact", "daily"}) == "reads fact"
