"""Readers see the last good marts, whatever happens to a run."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import yaml

from spark_jobs.ingest.publish import fast_forward
from spark_jobs.publish import branches, models, publication
from spark_jobs.publish.inputs import CHANGE_SEQ_TO, DBT_PROJECT, WATERMARKS
from spark_jobs.publish.marts import build_and_publish, recover, row_counts


def mains(spark) -> dict[str, int]:
    return {table: branches.heads(spark, table)["main"] for table in branches.audited_tables(spark)}


def contents(spark) -> dict[str, list]:
    return {
        table: sorted(map(str, spark.table(f"lake.{table}").collect()))
        for table in branches.audited_tables(spark)
    }


def pages() -> list[dict]:
    """The models' YAML files."""
    return [yaml.safe_load(file.read_text()) for file in (DBT_PROJECT / "models").rglob("*.yml")]


def audited() -> list[str]:
    """The models that are tables: all marts but the views, and what the runs keep for the next one."""
    marts = (DBT_PROJECT / "models" / "marts").rglob("*.sql")
    kept = (DBT_PROJECT / "models" / "intermediate").rglob("*.sql")
    return [
        f"marts.{file.stem}" for file in marts if "materialized='stable_view'" not in file.read_text()
    ] + [f"intermediate.{file.stem}" for file in kept if "materialized='audited_table'" in file.read_text()]


def only_main_is_left(spark) -> bool:
    return all(list(branches.heads(spark, t)) == ["main"] for t in branches.audited_tables(spark))


def test_dbt_unit_tests(marts, inputs, state):
    """Each definition's unit tests, beside its model."""
    ran = models.dbt("test", inputs, state, DBT_PROJECT, "--select", "test_type:unit")
    assert ran.error is None
    assert [(node.name, node.message) for node in ran.failures] == []
    assert len(ran.nodes) == sum(len(page.get("unit_tests") or []) for page in pages())


def test_what_is_published_says_where_it_comes_from(marts, built):
    assert sorted(built.tables) == sorted(audited())
    assert only_main_is_left(marts)
    for table in built.tables:
        summary = marts.sql(f"select summary from lake.{table}.snapshots").first().summary
        assert summary[CHANGE_SEQ_TO] == "1"
        assert summary[WATERMARKS] == '{"silent":"1970-01-01 00:00:00.000","test":"2026-11-21 12:00:00.000"}'
    rows = marts.table("lake.ops.publications").collect()
    assert {(r.table_name, r.published_at is not None) for r in rows} == {(t, True) for t in built.tables}


def test_nothing_is_written_into_the_project(marts):
    assert not {path.name for path in DBT_PROJECT.iterdir()} & {"target", "logs", "dbt_packages", ".user.yml"}


def test_a_failed_test_leaves_main_untouched(marts, inputs, state, tmp_path):
    project = tmp_path / "dbt_project"
    shutil.copytree(DBT_PROJECT, project)
    (project / "tests" / "no_sends.sql").write_text("select * from {{ ref('fct_sends') }}")
    before = mains(marts)
    done = build_and_publish(marts, replace(inputs, change_seq_to=2), state, project)
    assert not done.passed
    assert [node.status for node in done.failures if node.name == "no_sends"] == ["fail"]
    assert mains(marts) == before
    assert only_main_is_left(marts)
    assert marts.table("lake.ops.publications").where("published_at is null").isEmpty()


def test_a_run_killed_between_two_tables_is_rolled_forward(marts, inputs, state, monkeypatch):
    """The second run over the same inputs dies half-way; the third finishes it, and every row is as before."""
    before, old_mains = contents(marts), mains(marts)
    moved = []

    def die_at_the_fourth(spark, table, branch):
        if len(moved) == 3:
            raise KeyboardInterrupt
        moved.append(table)
        fast_forward(spark, table, branch)

    monkeypatch.setattr(publication, "fast_forward", die_at_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        build_and_publish(marts, inputs, state)
    monkeypatch.undo()
    assert sum(mains(marts)[table] != old_mains[table] for table in old_mains) == 3

    assert len(recover(marts)) == 1
    assert all(mains(marts)[table] != old_mains[table] for table in old_mains)
    assert only_main_is_left(marts)
    assert contents(marts) == before
    assert row_counts(marts, list(before)) == {table: len(rows) for table, rows in before.items()}
    assert marts.table("lake.ops.publications").where("published_at is null").isEmpty()
    assert recover(marts) == []


def test_a_publication_that_another_one_passed_is_refused(marts, inputs):
    """Two runs from the same main: the second moves nothing, and leaves no list behind."""
    tables = branches.audited_tables(marts)[:2]
    for branch in ("build_quick", "build_slow"):
        branches.create(marts, tables, branch)
        with branches.writing_to(marts, branch, {}):
            for table in tables:
                marts.sql(f"insert overwrite lake.{table} select * from lake.{table}")
    publication.publish(marts, tables, "build_quick", "quick", 1)
    before = mains(marts)
    with pytest.raises(publication.PublishRefused):
        publication.publish(marts, tables, "build_slow", "slow", 1)
    assert mains(marts) == before
    assert recover(marts) == []
    assert only_main_is_left(marts)


def test_a_table_without_its_branch_is_not_published(marts):
    with pytest.raises(publication.AuditFailed, match=r"marts\.fct_sends: branch build_gone is gone"):
        publication.publish(marts, ["marts.fct_sends"], "build_gone", "gone", 1)
