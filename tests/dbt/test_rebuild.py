"""What has changed is rebuilt, with all that is computed from it; nothing else is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from dbt.contracts.graph.manifest import Manifest

from spark_jobs.lake import tables
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.mart_build import branches, dbt, parsed
from spark_jobs.mart_build.build import build_and_publish
from spark_jobs.mart_build.definitions import (
    DBT_PROJECT,
    UNPUBLISHED,
    Definitions,
    digest_of_files,
    known,
    needed_for,
    needed_to_test,
    plain,
)
from spark_jobs.mart_build.inputs import Inputs, Published, inputs_now
from spark_jobs.settings import Limits
from tests import lakes
from tests.dbt.events import NOON


@pytest.fixture(scope="module")
def kept(inputs: Inputs, built, state: Path) -> bytes:
    """The parsed project."""
    version = digest_of_files(DBT_PROJECT, inputs.limits)
    (file,) = (state / "parsed").glob(f"{version}-00-*.msgpack")
    return file.read_bytes()


@pytest.fixture
def manifest(kept: bytes) -> Manifest:
    return Manifest.from_msgpack(kept, decoder=parsed._read)


@pytest.fixture(scope="module")
def before(kept: bytes) -> Definitions:
    return Definitions.of(Manifest.from_msgpack(kept, decoder=parsed._read), Limits())


def model(manifest: Manifest, name: str):
    return next(node for node in manifest.nodes.values() if node.name == name)


def macro(manifest: Manifest, name: str):
    return next(each for each in manifest.macros.values() if each.name == name)


def changed(manifest: Manifest, before: Definitions, limits: Limits | None = None) -> set[str]:
    return Definitions.of(manifest, limits or Limits()).changed(before.tables)


def test_comments_and_spaces_are_no_definition():
    sql = "select 1 -- it's one\n  {# or\n two #},   '--not {# this #}' as \"-- nor this\"\nfrom t"
    assert plain(sql) == """select 1 , '--not {# this #}' as "-- nor this" from t"""
    assert plain("select 'it\\'s -- text' -- comment") == "select 'it\\'s -- text'"


def test_what_says_nothing_about_rows_rebuilds_nothing(manifest, before):
    for node in manifest.nodes.values():
        if node.resource_type == "model":
            node.description = "another description"
            node.raw_code = f"-- another comment\n{node.raw_code}\n{{# and another #}}\n"
            for column in node.columns.values():
                column.description = "of another column"
        if node.resource_type == "test":
            node.raw_code = "select 1"
    for each in manifest.macros.values():
        each.macro_sql = each.macro_sql.replace("\n", "\n\n  ")
    manifest.exposures.clear()
    assert changed(manifest, before) == set()
    assert Definitions.of(manifest, Limits()).digest == before.digest


def test_a_change_reaches_what_is_computed_from_it(manifest, before):
    model(manifest, "retries").raw_code += " having count(*) > 0"
    assert changed(manifest, before) == {"retries", "retries_daily"}


def test_a_fact_reaches_facts_and_marts(manifest, before):
    model(manifest, "fct_deliveries").raw_code += " limit 7"
    found = changed(manifest, before)
    assert {"fct_deliveries", "fct_messages", "retries", "retries_daily", "slo_burn"} < found
    assert not found & {"fct_sends", "send_latency", "send_latency_daily", "int_message_hours"}


def test_a_macro_reaches_the_models_that_call_it_also_through_another(manifest, before):
    name = "histogram_of"
    callers = {
        node.name
        for node in manifest.nodes.values()
        if node.resource_type == "model" and any(uid.endswith(f".{name}") for uid in node.depends_on.macros)
    }
    macro(manifest, name).macro_sql += " "
    assert changed(manifest, before) == set()
    macro(manifest, name).macro_sql = macro(manifest, name).macro_sql.replace("map", "other_map")
    assert callers <= changed(manifest, before)
    assert "fct_sends" not in changed(manifest, before)


def test_which_rows_an_incremental_run_computes_is_no_definition(manifest, before):
    for name in ("int_changed_messages", "int_affected_messages", "int_covered_hours"):
        model(manifest, name).raw_code += " where false"
    assert changed(manifest, before) == set()


def test_a_materialization_reaches_all_tables(manifest, before):
    macro(manifest, "materialization_audited_table_spark").macro_sql += "{{ log('written') }}"
    assert changed(manifest, before) == {node.name for node in before.nodes.values() if node.table}


@pytest.mark.parametrize(
    ("what", "reached", "untouched"),
    [
        ("column", {"retries"}, {"fct_sends"}),
        ("partition", {"fct_sends", "send_latency"}, {"int_message_hours"}),
        ("seed", {"slo_burn"}, {"fct_sends", "retries"}),
        ("limit", {"orphaned_messages"}, {"send_latency"}),
    ],
)
def test_columns_config_seeds_and_limits(manifest, before, what, reached, untouched):
    limits = Limits()
    if what == "column":
        model(manifest, "retries").columns["hour"].data_type = "date"
    if what == "partition":
        model(manifest, "fct_sends").config["partition_by"] = "days(hour)"
    if what == "seed":
        model(manifest, "slo_objectives").checksum.checksum = "0" * 64
    if what == "limit":
        limits = Limits(max_delay_seconds=1)
    found = changed(manifest, before, limits)
    assert reached <= found
    assert not untouched & found


def test_dbt_is_asked_once_and_jobs_without_dbt_read_what_it_said(before, state, inputs):
    found = known(DBT_PROJECT, Limits(), state)
    assert found is not None
    assert found.tables == before.tables
    assert inputs.definitions == before.digest
    assert known(DBT_PROJECT, Limits(grace_seconds=7), state) is None


def test_a_rebuild_needs_what_exists_during_a_run_only(manifest):
    needed = needed_for({"orphan_rate"}, manifest)
    assert "orphan_rate" in needed
    assert "int_expected_deliveries_in_affected_hours" in needed
    assert not needed & {"fct_messages", "orphaned_messages", "stg_pubs"}


def test_data_tests_of_rebuilt_models_find_what_they_read(before, state, inputs):
    """dbt runs each test that reads a rebuilt model: of its other models, those that exist during a run only are computed."""
    after_retention = replace(inputs, change_seq_from=None, kept_from=NOON)
    for of in (inputs.of_rebuilt, after_retention):
        manifest = dbt.manifest(of, state)
        assert manifest is not None
        models = {node.name: node for node in manifest.nodes.values() if node.resource_type == "model"}
        tests = {
            node.name: {uid.rpartition(".")[2] for uid in node.depends_on_nodes if uid.startswith("model.")}
            for node in manifest.nodes.values()
            if node.resource_type == "test"
        }
        exist = {name for name, node in models.items() if node.config.materialized not in UNPUBLISHED}
        for name in [node.name for node in before.nodes.values() if node.table]:
            needed, run = needed_to_test({name}, manifest)
            for test, reads in tests.items():
                if name in reads or test in run:
                    assert test in run, (name, test)
                    assert reads <= exist | needed, (name, test)


@pytest.fixture
def edited(tmp_path: Path, catalog) -> Path:
    """Our project, where a mart by hour has other values, and a fact other SQL for the same rows; main is set back after it."""
    project = tmp_path / "dbt_project"
    shutil.copytree(DBT_PROJECT, project, ignore=shutil.ignore_patterns("target", "logs"))
    edits = {
        "hourly/retries.sql": ("max(max_retries) as", "max(max_retries) + 1000 as"),
        "facts/fct_messages.sql": ("recalls.msg_id is not null as", "not recalls.msg_id is null as"),
    }
    for file, (old, new) in edits.items():
        path = project / "models" / "marts" / file
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
    heads = {table: branches.heads(catalog, table)["main"] for table in branches.audited_tables(catalog)}
    yield project
    for table, snapshot in heads.items():
        catalog.load_table(table).manage_snapshots().rollback_to_snapshot(snapshot).commit()


def test_only_changed_models_are_rebuilt_and_all_of_their_rows(
    marts, catalog, settings, state, edited, tmp_path
):
    published = Published.of(settings)
    events = read_offsets(marts, settings, tables.EVENTS)
    definitions = dbt.definitions(settings.limits, tmp_path, edited)
    found = inputs_now(settings, events, published, definitions)
    assert found is not None
    assert found.change_seq_from == published.change_seq_to
    assert {"retries", "retries_daily", "fct_messages"} < found.rebuilt
    untouched = {node.name for node in definitions.nodes.values() if node.table} - found.rebuilt
    assert {"fct_sends", "fct_consume_attempts", "fct_deliveries", "send_latency"} < untouched

    names = branches.audited_tables(catalog)
    rows = {table: lakes.rows(catalog, table) for table in names}
    done = build_and_publish(marts, catalog, found, tmp_path, edited)
    assert done.passed, (done.error, done.failures)
    of_models = [node.name for node in done.nodes if node.kind == "model"]
    for name in ("fct_messages", "retries", "retries_daily"):
        assert of_models.count(name) == 1, "a changed model is built once"
    assert Published.of(settings).definitions == definitions.digest
    assert inputs_now(settings, events, Published.of(settings), definitions).rebuilt == frozenset()

    retries = marts.table("lake.marts.retries")
    assert retries.count() > 0
    assert retries.where("max_retries < 1000").isEmpty()
    assert marts.table("lake.marts.retries_daily").where("max_retries < 1000").isEmpty()
    for table in names:
        if table not in ("marts.retries", "marts.retries_daily"):
            assert lakes.rows(catalog, table) == rows[table], table
