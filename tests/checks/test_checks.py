"""Every check fails for faulty data and passes for correct data."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from docs import sql
from docs.checks import PAGE, RUNBOOKS, render
from spark_jobs.checks.check import Check, Evaluation, Measured, Result, Run, judge
from spark_jobs.checks.evaluate import evaluate, refusing
from spark_jobs.checks.registry import BY_NAME, CHECKS, of_stage
from spark_jobs.jobs.marts import gate
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import CHANGE_SEQ, OFFSETS, CommittedOffsets, Position, to_json
from spark_jobs.lake.tables import ERASURES, EVENTS, RAW, REPLACED_RECORDS, RETENTION, Table
from spark_jobs.mart_build import branches, dbt
from spark_jobs.mart_build.dbt import Build, Node
from spark_jobs.mart_build.inputs import WITH_INPUTS, inputs_now
from spark_jobs.settings import Checks, Cluster, Settings
from tests.checks.world import NOW, ORPHANS, SICK, WELL, add, ago, mart, ms
from tests.rocketmq.test_lag import CASES as BROKERS

BRANCH = "build_smaller"
SECTIONS = ["What the alert means", "Impact", "Diagnose", "Mitigate", "When to silence"]


@dataclass(frozen=True)
class Case:
    """An entity that makes the check fail with that value, and one that lets it pass; None: nothing failed at all."""

    fails: str | None
    value: float | None
    passes: str | None


def of_queue(value: float | None) -> Case:
    return Case(str(SICK), value, str(WELL))


def of_cluster(value: float | None) -> Case:
    return Case("sick", value, "well")


CASES = {
    "offsets_contiguous": of_queue(2),  # 4 is missing, 5 is a duplicate
    "raw_offsets_match_data": of_queue(2),  # the committed offset is 12, the data ends at 9
    "events_offsets_match_data": of_queue(3),  # a record at 14, the committed offset is 12
    "raw_is_in_events": of_queue(4),  # 3 and 7 have no records, 8 too few, 9 one twice
    "ingest_gaps": Case(str(replace(SICK, queue_id=1)), 70, None),
    "body_errors": Case(f"sick/{SICK.trace_topic}", 1, None),
    "invalid_rate": Case(f"sick/{SICK.trace_topic}", 9 / 24, f"well/{SICK.trace_topic}"),
    "dbt_tests": Case("bad_test", 3, "good_test"),
    "history_tests": Case("bad_test", 3, "good_test"),
    "row_count_drop": Case("marts.fct_sends", 0.5, "marts.fct_consume_attempts"),
    "dbt_warnings": Case("warning_test", 2, None),
    "unknown_layouts": Case("sick/field_count:99", 4, None),
    "completeness": of_cluster(0.75),  # 60 pairs, 20 of each half: 160 of 213 records
    "clock_skew": Case("sick/10.0.0.7", 45_000, "well/10.0.0.7"),
    "duplicate_rate": Case("sick/g", 0.2, "well/g"),
    "orphan_rate": Case("sick/orders/g", 0.14, "well/orders/g"),
    "orphans_proven": Case("sick/orders/g", 0.05, "well/orders/g"),
    "group_silent": Case("sick/g", 157, "well/tagged"),
    "slo_burn_page": Case("sick/success", 1, "well/success"),
    "slo_burn_ticket": Case("sick/success", 1, "well/success"),
    "freshness_raw": of_cluster(300),
    "freshness_events": of_cluster(300),
    "freshness_marts": of_cluster(540),
}
# These judge the lake as a whole: they are made twice, see below.
SILENCE = {"ingest_silent", "marts_silent"}
# Judged by what brokers say; see test_writers.py.
WRITERS = {"unknown_writers"}
# The marts job says whether it failed; see tests/dbt/test_serving_switch.py.
MARTS_JOB = {"serving_file"}
# Airflow and the watchdog report these themselves; see test_watchdog.py.
AIRFLOW = {"watchdog", "task_failed"}
# Of the machine, not of a cluster; see test_installation_alerts.py.
INSTALLATION = {"disk_space", "airflow_component", "watchdog_silent"}


def node(name: str, status: str, failures: int = 0) -> Node:
    return Node(name, "test", status, f"Got {failures} results", 0.1, failures)


BUILD = Build(
    [
        node("good_test", "pass"),
        node("bad_test", "fail", 3),
        node("warning_test", "warn", 2),
        node("unknown_layouts", "warn", 1),
        node("behind_the_bad_test", "skipped"),
    ],
    [],
    1.0,
)


@pytest.fixture(scope="module")
def run(result, watched) -> Run:
    """Of the marts as they were built on a branch: half of the sends are gone."""
    for name in ("marts.fct_sends", "marts.fct_consume_attempts"):
        result.sql(f"alter table lake.{name} create branch {BRANCH}")
    result.sql(f"delete from lake.marts.fct_sends.branch_{BRANCH} where cluster = 'sick'")
    marks = {"sick": ms(NOW), "well": ms(NOW)}
    yield Run(watched, NOW, result, marks, BUILD, BRANCH)
    branches.drop_all(result, lake(watched), ["marts.fct_sends", "marts.fct_consume_attempts"])


@pytest.fixture(scope="module")
def found(run) -> dict[str, Evaluation]:
    return {each.check.name: each for each in evaluate((BY_NAME[name] for name in CASES), run)}


@pytest.mark.parametrize("name", CASES)
def test_a_check_fails_for_the_sick_cluster_only(found, name):
    case, results = CASES[name], {result.entity: result for result in found[name].results}
    assert [result.entity for result in found[name].failures] == [case.fails], found[name]
    assert results[case.fails].value == pytest.approx(case.value)
    if case.passes:
        assert results[case.passes].passed is True, results[case.passes]


def test_the_text_of_an_alert_about_orphans_names_their_evidence_and_causes(found):
    details = {name: result.detail for name in CASES for result in found[name].failures}
    causes = "causes: 8 filtered_or_lost, 6 not_returned, 5 dead_letter"
    assert details["orphans_proven"] == f"5 of 100 messages are orphans with evidence proven ({causes})"
    evidence = "evidence: 6 inferred, 8 unknown"
    assert details["orphan_rate"] == f"14 of 100 messages are orphans without proof ({evidence}; {causes})"
    assert details["group_silent"].endswith(
        "since then: 19 (5 dead_letter, proven; 6 not_returned, inferred; 8 filtered_or_lost, unknown), "
        "the first 157 min before it"
    )


def test_a_group_is_not_silent_before_its_messages_have_waited_and_never_because_of_those_before_its_last_attempt(
    found,
):
    values = {result.entity: result.value for result in found["group_silent"].results}
    assert values == {
        "sick/g": 157,
        "well/tagged": 0,
        "well/idle": 42,
        "well/g": 0,
    }


def test_a_cluster_that_is_not_configured_any_more_has_no_messaging_alerts(run):
    ours = run.settings.model_copy(update={"clusters": run.settings.clusters[1:]})
    for name in ("orphan_rate", "group_silent", "completeness", "slo_burn_page"):
        (found,) = evaluate([BY_NAME[name]], replace(run, settings=ours))
        assert found.complete, "so alerts of others are retired"
        assert {result.entity.partition("/")[0] for result in found.results} == {"well"}, name


def test_the_completeness_of_records_without_any_pair_is_0(run, result):
    table, only_ends = mart("trace_completeness"), {"ends_without_begin": 59, "begins_without_end": 0}
    before = lake(run.settings).load_table(table.name).current_snapshot()
    add(run.settings, table, [{"cluster": "lost", "hour": ago(hours=2), "pairs": 0, **only_ends}])
    clusters = [*run.settings.clusters, Cluster(name="lost", namesrv=["127.0.0.1:1"])]
    ours = run.settings.model_copy(update={"clusters": clusters})
    marks = {**run.watermarks, "lost": ms(NOW)}
    try:
        (found,) = evaluate([BY_NAME["completeness"]], replace(run, settings=ours, watermarks=marks))
        (lost,) = [each for each in found.results if each.entity == "lost"]
        assert (lost.passed, lost.value) == (False, 0.0), lost
    finally:
        result.sql(f"call lake.system.rollback_to_snapshot('lake.{table.name}', {before.snapshot_id})")


def test_one_proven_orphan_is_critical_however_few_messages_were_judged(run, result):
    """And what is not proven is a warning at most."""
    assert [BY_NAME[name].severity for name in ("orphans_proven", "orphan_rate", "group_silent")] == [
        *("critical", "warning", "warning")
    ]
    table, catalog = mart("orphan_rate"), lake(run.settings)
    before = catalog.load_table(table.name).current_snapshot()
    few = ORPHANS | {"cluster": "well", "topic": "rare", "judged": 2, "hour": ago(hours=2)}
    add(run.settings, table, [few | {"orphaned": 2, "orphaned_proven": 1, "orphaned_inferred": 1}])
    try:
        passed = {
            name: {each.entity: each.passed for each in evaluate([BY_NAME[name]], run)[0].results}
            for name in ("orphans_proven", "orphan_rate")
        }
        assert passed["orphans_proven"]["well/rare/g"] is False
        assert passed["orphan_rate"]["well/rare/g"] is True
    finally:
        result.sql(f"call lake.system.rollback_to_snapshot('lake.{table.name}', {before.snapshot_id})")


@pytest.mark.parametrize("name", sorted(SILENCE))
def test_silence_is_measured_from_the_last_publication(result, watched, name):
    check = BY_NAME[name]
    last = result.sql(
        "select max(committed_at) from lake.marts.fct_messages.snapshots where parent_id is null"
    ).first()[0]
    seconds = last.timestamp()
    for minutes, passed in ((5, True), (50, False)):
        now = NOW.fromtimestamp(seconds + minutes * 60, NOW.tzinfo)
        (result,) = judge(check, check.measure(Run(watched, now)), watched).results
        assert (result.passed, round(result.value)) == (passed, minutes), result


def test_a_commit_to_another_branch_is_no_publication(result, watched):
    check, later = BY_NAME["ingest_silent"], datetime.now(UTC) + timedelta(hours=2)

    def minutes() -> float | None:
        (silence,) = check.measure(Run(watched, later))
        return silence.value

    before, carried = minutes(), {OFFSETS: to_json({WELL: Position(15)})}
    try:
        for table in (RAW, EVENTS):
            add(watched, table, [], branch="audit", **carried)
        assert minutes() == before
    finally:
        for table in (RAW, EVENTS):
            lake(watched).load_table(table.name).manage_snapshots().remove_branch("audit").commit()


def test_a_lake_without_any_publication_is_silent(tmp_path):
    empty = Settings(home=tmp_path)
    for name, passed, detail in (
        ("ingest_silent", False, "nothing was ever published"),
        ("marts_silent", True, "nothing was merged yet"),
    ):
        (result,) = judge(BY_NAME[name], BY_NAME[name].measure(Run(empty, NOW)), empty).results
        assert (result.passed, detail in result.detail) == (passed, True), result


def test_marts_that_a_build_would_not_change_are_not_silent(result, watched):
    """Then the job publishes nothing, though it runs."""
    check, later = BY_NAME["marts_silent"], datetime.now(UTC) + timedelta(hours=2)

    def passes() -> bool | None:
        (result,) = judge(check, check.measure(Run(watched, later)), watched).results
        return result.passed

    assert not passes()
    catalog, name = lake(watched), WITH_INPUTS
    before = {
        table: catalog.load_table(table).current_snapshot().snapshot_id for table in (EVENTS.name, name)
    }
    try:
        well = {WELL: Position(15, complete_to=ms(NOW))}
        for seq, passed in ((7, True), (8, False)):
            add(watched, EVENTS, [], **{OFFSETS: to_json(well), CHANGE_SEQ: str(seq)})
            definitions = dbt.definitions(watched.limits, watched.home / "dbt")
            inputs = inputs_now(watched, CommittedOffsets(well, 7), None, definitions)
            add(watched, Table(name, "", ()), [], **inputs.snapshot_properties("p", "r"))
            assert passes() is passed
    finally:
        for table, snapshot in before.items():
            catalog.load_table(table).manage_snapshots().rollback_to_snapshot(snapshot).commit()


def test_every_check_has_a_case():
    covered = {*CASES, *SILENCE, *WRITERS, *MARTS_JOB, *AIRFLOW, *INSTALLATION, *BROKERS}
    assert covered == set(BY_NAME)
    print(f"\n{len(covered)} of {len(CHECKS)} checks: 100 %")


def test_only_integrity_checks_prevent_a_publication(found):
    refused = refusing(found.values())
    assert {line.partition(" ")[0].rstrip(":") for line in refused} == {
        *("offsets_contiguous", "raw_offsets_match_data", "events_offsets_match_data", "raw_is_in_events"),
        *("dbt_tests", "history_tests", "row_count_drop"),
    }
    assert not replace(BUILD, nodes=[], refused=refused).passed
    assert Build([], [], 1.0).passed


def test_a_refused_publication_saves_its_results_on_main(run, result):
    """What `spark_jobs.jobs.marts` gives to `build_and_publish`; a build that it refuses has not passed."""
    built = Build([node("good_test", "pass")], [], 1.0)
    ours = run.settings.model_copy(update={"checks": Checks(integrity_days=36_500)})  # it looks at the clock
    refused = gate(replace(run, settings=ours), "refused")(built, BRANCH)
    assert not replace(built, refused=refused).passed
    names = {
        "offsets_contiguous",
        "raw_offsets_match_data",
        "events_offsets_match_data",
        "raw_is_in_events",
        "row_count_drop",
    }
    assert {line.partition(" ")[0] for line in refused} == names
    rows = result.table("lake.ops.check_results").where("run = 'refused' and not passed").collect()
    assert {row.check for row in rows} == names


def test_a_skipped_test_is_unknown(found):
    (skipped,) = [r for r in found["dbt_tests"].results if r.entity == "behind_the_bad_test"]
    assert skipped.passed is None
    assert not found["dbt_tests"].complete


@pytest.fixture
def append(result, settings):
    """Append rows to a table of `ops`; they are removed after the test."""
    catalog, before = lake(settings), {}

    def append(table: Table, rows: list[dict]) -> None:
        before.setdefault(table.name, catalog.load_table(table.name).current_snapshot())
        add(settings, table, rows)

    yield append
    for name, snapshot in before.items():
        if snapshot is None:
            result.sql(f"delete from lake.{name}")
        else:
            result.sql(f"call lake.system.rollback_to_snapshot('lake.{name}', {snapshot.snapshot_id})")


def sends_lost(run) -> Result:
    results = judge(BY_NAME["row_count_drop"], BY_NAME["row_count_drop"].measure(run), run.settings).results
    return next(each for each in results if each.entity == "marts.fct_sends")


def since_published(settings, seconds: float) -> datetime:
    published = lake(settings).load_table("marts.fct_sends").current_snapshot()
    return datetime.fromtimestamp(published.timestamp_ms / 1000 + seconds, UTC)


def replaced(count: int, **columns: Any) -> list[dict]:
    return [{"cluster": "sick", "queue_offset": n, "change_seq": 7, **columns} for n in range(count)]


@pytest.mark.parametrize(
    ("table", "rows", "value"),
    [
        (REPLACED_RECORDS, replaced(1), 19 / 40),
        (REPLACED_RECORDS, replaced(20), 0),
        (REPLACED_RECORDS, replaced(10, queue_id=0) + replaced(10, queue_id=0, change_seq=8), 10 / 40),
        (REPLACED_RECORDS, replaced(4, msg_id="1,2,3,4,5"), 0),
        (
            ERASURES,
            [{"records": 5}, {"records": 7, "completed_at": 60}, {"records": 9, "completed_at": -60}],
            8 / 40,
        ),
        # The marts keep the rows of records that retention has dropped.
        (RETENTION, [{"row_count": 20, "table_name": EVENTS.name, "dropped_at": 60}], 0.5),
    ],
)
def test_rows_removed_on_purpose_are_no_drop(run, settings, append, table, rows, value):
    """Of 40 sends 20 are gone. A row of `ops` explains as many missing rows as records were removed since."""
    times = ("completed_at", "dropped_at")
    append(
        table,
        [{k: since_published(settings, v) if k in times else v for k, v in row.items()} for row in rows],
    )
    found = sends_lost(run)
    assert found.value == pytest.approx(value)
    assert found.passed is (value <= found.threshold)
    assert (f"lake.{table.name}" in found.detail) is (value < 0.5)


@pytest.mark.parametrize(
    ("harms", "wrong"),
    [
        (["insert into {events} select * from {events}"], len((*range(5), 10, 12, 13, 14))),
        (["delete from {events} where queue_offset = 3 and record_index = 1"], 1),
        (["delete from {events} where queue_offset = 3 and record_index = 2"], 1),
        (["delete from {raw} where queue_offset = 3"], 1),
        # Empty pieces, and no last separator.
        (["update {raw} set body = unhex('610202630264') where queue_offset = 3"], 0),
        # A glued record is two.
        (["update {raw} set body = unhex('6102') where queue_offset = 3"], 0),
        # Of 4 the extraction has counted the records.
        (["delete from {events} where queue_offset = 4 and record_index = 1"], 1),
        (["update {raw} set body = unhex('61026202630264') where queue_offset = 4"], 0),
        (["update {raw} set min_records = 4 where queue_offset = 4"], 1),
        (
            [
                "update {raw} set min_records = 0 where queue_offset = 4",
                "delete from {events} where queue_offset = 4",
            ],
            0,
        ),
    ],
)
def test_records_are_counted_message_by_message(result, settings, run, harms, wrong):
    """Of the cluster `well`, with all else as it was."""
    catalog = lake(settings)
    before = {table: catalog.load_table(table.name).current_snapshot().snapshot_id for table in (RAW, EVENTS)}
    try:
        for harm in harms:
            of_well = harm + (" and" if " where " in harm else " where") + " cluster = 'well'"
            result.sql(of_well.format(raw=RAW.full_name, events=EVENTS.full_name))
        results = {each.entity: each for each in BY_NAME["raw_is_in_events"].measure(run)}
        assert results[str(WELL)].value == wrong, results[str(WELL)]
        assert results[str(SICK)].value == CASES["raw_is_in_events"].value
    finally:
        for table, snapshot in before.items():
            result.sql(f"call lake.system.rollback_to_snapshot('{table.full_name}', {snapshot})")


def test_a_check_that_raises_fails_alone(run):
    def broken(_):
        raise ValueError("no such thing\nand more")

    bad = replace(BY_NAME["body_errors"], measure=broken)
    first, second = evaluate([bad, BY_NAME["ingest_gaps"]], run)
    assert [(r.entity, r.passed, r.detail) for r in first.results] == [
        (None, False, "could not be checked: ValueError: no such thing")
    ]
    assert not first.complete
    assert second.failures[0].value == 70


def test_limits_and_severities_come_from_the_settings():
    check = BY_NAME["orphan_rate"]
    ours = Settings(
        checks=Checks(orphan_rate=0.5, of_entity={"orphan_rate:b": 0.1}, severity={"orphan_rate": "info"})
    )
    judged = judge(check, [Measured("a", 0.3), Measured("b", 0.3)], ours)
    assert [(r.entity, r.threshold, r.passed) for r in judged.results] == [
        ("a", 0.5, True),
        ("b", 0.1, False),
    ]
    assert judged.severity == "info"
    with pytest.raises(ValueError, match="name unknown checks: nonsense. Known are offsets_contiguous, "):
        of_stage(Settings(checks=Checks(off=["nonsense"])), "merge")
    assert check not in of_stage(Settings(checks=Checks(off=["orphan_rate"])), "marts")


@pytest.mark.parametrize("check", [each for each in CHECKS if each.limit], ids=lambda check: check.name)
def test_a_limit_itself_passes(check: Check):
    limit = Checks.model_fields[check.limit].default
    beyond = limit * 1.1 if check.fails == "above" else limit * 0.9
    results = judge(check, [Measured("at", limit), Measured("beyond", beyond)], Settings()).results
    assert [r.passed for r in results] == [True, False]


def test_each_check_has_a_runbook_and_each_runbook_a_check():
    assert {file.stem for file in RUNBOOKS.glob("*.md")} == set(BY_NAME)
    for file in RUNBOOKS.glob("*.md"):
        text = file.read_text()
        assert text.startswith(f"# {file.stem}: ")
        assert re.findall(r"^## (.*)", text, re.MULTILINE) == SECTIONS, file
        for link in re.findall(r"\]\(([^)]+\.md)\)", text):
            assert (RUNBOOKS / link).is_file(), (file, link)


def statements_of(runbook: Path) -> list[str]:
    """The statements that the runbook gives to `docs.sql`."""
    given = re.findall(
        r"^\.venv/bin/python -m docs\.sql <<'SQL'\n(.*?)^SQL$", runbook.read_text(), re.DOTALL | re.MULTILINE
    )
    return [statement for text in given for statement in sql.statements(text)]


def test_the_statements_of_the_runbooks_can_be_run(result):
    """They are analysed against the tables that there are; marts that the world has not are left out."""
    known = 0
    for file in RUNBOOKS.glob("*.md"):
        for statement in statements_of(file):
            tables = set(re.findall(r"lake\.(marts\.\w+)", statement))
            if all(result.catalog.tableExists(f"lake.{table}") for table in tables):
                result.sql(statement).schema  # noqa: B018
                known += 1
    assert known >= 20


def test_the_page_of_the_checks_is_up_to_date():
    assert PAGE.read_text() == render(), "run `make checks`"
