"""Readers see the last good marts, whatever happens to a run."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from spark_jobs.checks.build import FACTS
from spark_jobs.checks.check import Run
from spark_jobs.jobs.marts import gate
from spark_jobs.lake import identity
from spark_jobs.lake.publish import fast_forward
from spark_jobs.mart_build import branches, dbt, parsed, publication, views
from spark_jobs.mart_build.build import build_and_publish, recover, row_counts
from spark_jobs.mart_build.definitions import DBT_PROJECT, FOLDER, ProjectChangedError
from spark_jobs.mart_build.inputs import CHANGE_SEQ_TO, WATERMARKS, Inputs
from tests import lakes

STARTED = time.time()


def mains(catalog) -> dict[str, int]:
    return {table: branches.heads(catalog, table)["main"] for table in branches.audited_tables(catalog)}


def contents(catalog) -> dict[str, list[str]]:
    return {table: lakes.rows(catalog, table) for table in branches.audited_tables(catalog)}


def pages() -> list[dict]:
    """The models' YAML files."""
    return [yaml.safe_load(file.read_text()) for file in (DBT_PROJECT / "models").rglob("*.yml")]


def audited() -> list[str]:
    """The models that are tables: all marts, and what the runs keep for the next one."""
    marts = (DBT_PROJECT / "models" / "marts").rglob("*.sql")
    kept = [
        file
        for folder in ("intermediate", "incremental")
        for file in (DBT_PROJECT / "models" / folder).rglob("*.sql")
    ]
    return [f"marts.{file.stem}" for file in marts] + [
        f"intermediate.{file.stem}" for file in kept if "materialized='audited_table'" in file.read_text()
    ]


def only_main_is_left(catalog) -> bool:
    return all(list(branches.heads(catalog, t)) == ["main"] for t in branches.audited_tables(catalog))


def test_a_build_leaves_views_of_the_same_sql_as_they_are(marts, inputs, state, catalog):
    def files() -> dict[str, str]:
        return {name: file for name, file in identity.metadata_files(catalog) if name.startswith("staging.")}

    of_models = {f"staging.{file.stem}" for file in (DBT_PROJECT / "models" / "staging").glob("*.sql")}
    digests, before = views.digests(marts), files()
    assert digests.keys() == of_models == before.keys() & of_models
    (name, *_) = sorted(digests)
    select = ("--select", "path:models/staging")
    ran = dbt.dbt("run", inputs, state, DBT_PROJECT, *select, view_digests=digests | {name: "of other SQL"})
    assert ran.passed
    assert {each for each, file in files().items() if before[each] != file} == {name}
    assert views.digests(marts) == digests


def test_the_project_is_parsed_once_for_each_kind_of_run(inputs, tmp_path):
    def names(run: Inputs, project: Path) -> set[str]:
        options = ("--project-dir", str(project), "--profiles-dir", str(project))
        command = ["--quiet", "--log-path", str(tmp_path), "--no-partial-parse", "parse", *options]
        command += ["--target-path", str(tmp_path / "target"), "--vars", json.dumps(run.dbt_vars)]
        found = parsed.manifest(run, tmp_path, project, command)
        assert found is not None
        return {node.name for node in found.nodes.values()}

    project = tmp_path / "project"
    shutil.copytree(DBT_PROJECT, project, ignore=shutil.ignore_patterns("target", "logs"))
    full, later = replace(inputs, change_seq_to=7), replace(inputs, change_seq_from=1)
    assert names(inputs, project) == names(full, project) == names(later, project)
    kept = {file: file.read_bytes() for file in (tmp_path / FOLDER).iterdir()}
    assert len(kept) == 2
    (project / "models" / "marts" / "added.sql").write_text("select 1 as one")
    assert "added" in names(inputs, project)
    assert kept.keys() < {*(tmp_path / FOLDER).iterdir()}, "normal runs may go on with the version of before"


def test_dbt_unit_tests(marts, inputs, state):
    """Each definition's unit tests, beside its model."""
    ran = dbt.dbt("test", inputs, state, DBT_PROJECT, "--select", "test_type:unit")
    assert ran.error is None
    assert [(node.name, node.message) for node in ran.failures] == []
    assert len(ran.nodes) == sum(len(page.get("unit_tests") or []) for page in pages())


def test_what_is_published_says_where_it_comes_from(marts, catalog, built):
    assert sorted(built.tables) == sorted(audited())
    assert only_main_is_left(catalog)
    for table in built.tables:
        summary = marts.sql(f"select summary from lake.{table}.snapshots").first().summary
        assert summary[CHANGE_SEQ_TO] == "1"
        assert summary[WATERMARKS] == '{"silent":"1970-01-01 00:00:00.000","test":"2026-11-21 12:00:00.000"}'
    rows = marts.table("lake.ops.publications").collect()
    assert {(r.table_name, r.published_at is not None) for r in rows} == {(t, True) for t in built.tables}


def test_nothing_is_written_into_the_project(marts):
    """What someone's `dbt compile` has written there before stays as it is."""
    written_by_dbt = [DBT_PROJECT / name for name in ("target", "logs", "dbt_packages", ".user.yml")]
    files = [file for path in written_by_dbt for file in (path, *path.rglob("*")) if file.exists()]
    assert [file for file in files if file.stat().st_mtime >= STARTED] == []


@pytest.fixture
def one_model(marts, tmp_path) -> Iterator[Path]:
    """Our dbt project with a single model, which makes a row a run."""
    project = tmp_path / "dbt_project"
    shutil.copytree(DBT_PROJECT, project)
    for folder in ("models", "seeds", "tests"):
        shutil.rmtree(project / folder)
        (project / folder).mkdir()
    (project / "models" / "marts").mkdir()
    (project / "models" / "marts" / "small.sql").write_text("select {{ change_seq_to() }} as run")
    column = {"name": "run", "data_type": "int", "description": "run"}
    model = {"name": "small", "description": "small", "columns": [column]}
    (project / "models" / "marts" / "small.yml").write_text(yaml.safe_dump({"models": [model]}))
    yield project
    marts.sql("drop table if exists lake.marts.small purge")


def of_one_model(inputs: Inputs, change_seq_to: int) -> Inputs:
    """The definitions of our own project are not those of this one."""
    return replace(inputs, change_seq_to=change_seq_to, definitions="")


def test_a_failed_test_leaves_main_untouched(marts, catalog, inputs, state, one_model):
    assert build_and_publish(marts, catalog, of_one_model(inputs, 2), state, one_model).passed
    before = mains(catalog)
    (one_model / "tests" / "no_third_run.sql").write_text("select * from {{ ref('small') }} where run = 3")
    done = build_and_publish(marts, catalog, of_one_model(inputs, 3), state, one_model)
    assert not done.passed
    assert [node.status for node in done.failures] == ["fail"]
    assert mains(catalog) == before
    assert [row.run for row in marts.table("lake.marts.small").collect()] == [2]
    assert only_main_is_left(catalog)
    assert marts.table("lake.ops.publications").where("published_at is null").isEmpty()


def test_a_refused_build_leaves_main_untouched(marts, catalog, inputs, state, one_model):
    assert build_and_publish(marts, catalog, of_one_model(inputs, 2), state, one_model).passed
    before = mains(catalog)
    done = build_and_publish(
        marts, catalog, of_one_model(inputs, 3), state, one_model, audit=lambda *_: ["a check: its reason"]
    )
    assert (done.error, done.failures, done.passed) == (None, [], False)
    assert mains(catalog) == before
    assert only_main_is_left(catalog)


def test_a_build_of_files_that_changed_meanwhile_is_not_published(
    marts, catalog, settings, inputs, state, one_model
):
    """Some of its tables are those of the files before, and nothing would compute them again."""
    assert build_and_publish(marts, catalog, of_one_model(inputs, 2), state, one_model).passed
    before = mains(catalog)
    model = one_model / "models" / "marts" / "small.sql"

    def edit(*_) -> list[str]:
        model.write_text("select {{ change_seq_to() }} + 1 as run")
        return []

    with pytest.raises(ProjectChangedError, match="changed while the marts were built"):
        build_and_publish(marts, catalog, of_one_model(inputs, 3), state, one_model, audit=edit)
    with pytest.raises(ProjectChangedError, match="has changed since the build was planned"):
        build_and_publish(marts, catalog, inputs, state, one_model)
    assert mains(catalog) == before
    recover(marts, catalog, settings)
    assert build_and_publish(marts, catalog, of_one_model(inputs, 3), state, one_model).passed
    assert [row.run for row in marts.table("lake.marts.small").collect()] == [4]
    assert only_main_is_left(catalog)


def test_a_run_killed_between_two_tables_is_rolled_forward(
    marts, catalog, settings, inputs, state, monkeypatch
):
    """A run that no record is new to dies half-way; the next one finishes it, and every row is as before.

    The gate would have refused it: the records of the story have no messages in raw, whose map they are beyond.
    """
    before, old_mains = contents(catalog), mains(catalog)
    moved, refused, judged = [], [], []

    def audit(done, branch):
        refused.extend(
            gate(Run(settings, datetime.now(UTC), marts, inputs.watermarks), "judged")(done, branch)
        )
        judged.extend(node.name for node in done.nodes if node.kind == "test" and node.status != "warn")
        return []

    def die_at_the_fourth(spark, table, branch):
        if len(moved) == 3:
            raise KeyboardInterrupt
        moved.append(table)
        fast_forward(spark, table, branch)

    monkeypatch.setattr(publication, "fast_forward", die_at_the_fourth)
    nothing_new = replace(inputs, change_seq_from=inputs.change_seq_to)
    with pytest.raises(KeyboardInterrupt):
        build_and_publish(marts, catalog, nothing_new, state, audit=audit)
    monkeypatch.undo()
    new_mains = mains(catalog)
    assert sum(new_mains[table] != old_mains[table] for table in old_mains) == 3

    assert {line.partition(" ")[0] for line in refused} == {"events_offsets_match_data"}
    results = marts.table("lake.ops.check_results").where("run = 'judged'").collect()
    assert {r.check for r in results if r.passed is False} == {"events_offsets_match_data"}
    assert sorted(r.entity for r in results if r.check == "dbt_tests") == sorted(judged)
    assert {r.entity for r in results if r.check == "row_count_drop"} == set(FACTS)

    assert len(recover(marts, catalog, settings)) == 1
    new_mains = mains(catalog)
    assert all(new_mains[table] != old_mains[table] for table in old_mains)
    assert only_main_is_left(catalog)
    assert contents(catalog) == before
    assert row_counts(catalog, list(before)) == {table: len(rows) for table, rows in before.items()}
    assert marts.table("lake.ops.publications").where("published_at is null").isEmpty()
    assert recover(marts, catalog, settings) == []


def test_a_publication_that_another_one_passed_is_refused(marts, catalog, settings, inputs):
    """Two runs from the same main: the second moves nothing, and leaves no list behind."""
    tables = branches.audited_tables(catalog)[:2]
    for branch in ("build_quick", "build_slow"):
        branches.create(marts, catalog, tables, branch)
        with branches.writing_to(marts, branch, {}):
            for table in tables:
                marts.sql(f"insert overwrite lake.{table} select * from lake.{table}")
    publication.publish(marts, catalog, tables, "build_quick", "quick", 1)
    before = mains(catalog)
    with pytest.raises(publication.PublishConflictError):
        publication.publish(marts, catalog, tables, "build_slow", "slow", 1)
    assert mains(catalog) == before
    assert recover(marts, catalog, settings) == []
    assert only_main_is_left(catalog)


def test_nothing_is_published_if_main_of_one_table_has_moved(marts, catalog, settings):
    """As by a statement that somebody runs on a mart."""
    tables = branches.audited_tables(catalog)[:3]
    branches.create(marts, catalog, tables, "build_slow")
    with branches.writing_to(marts, "build_slow", {}):
        for table in tables:
            marts.sql(f"insert overwrite lake.{table} select * from lake.{table}")
    marts.sql(f"insert overwrite lake.{tables[-1]} select * from lake.{tables[-1]}")
    before = mains(catalog)
    with pytest.raises(publication.PublishConflictError, match=f"{tables[-1]}: main has moved"):
        publication.publish(marts, catalog, tables, "build_slow", "slow", 1)
    assert mains(catalog) == before
    assert recover(marts, catalog, settings) == []
    assert only_main_is_left(catalog)


def test_a_table_without_its_branch_is_not_published(marts, catalog):
    with pytest.raises(publication.AuditError, match=r"marts\.fct_sends: branch build_gone does not exist"):
        publication.publish(marts, catalog, ["marts.fct_sends"], "build_gone", "gone", 1)
