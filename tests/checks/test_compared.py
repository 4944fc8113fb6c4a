"""Which messages the integrity checks compare: new ones after a merge, all recent ones once a day and while an alert is open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.alerts import alert, run_checks
from spark_jobs.checks.check import Run
from spark_jobs.checks.evaluate import evaluate
from spark_jobs.checks.registry import BY_NAME, CHECKS, of_stage
from spark_jobs.jobs import history_tests
from spark_jobs.lake.offsets import Position
from spark_jobs.settings import Checks
from tests.checks.world import NOW, SICK, WELL


@pytest.fixture
def run(result, watched) -> Run:
    return Run(watched, NOW, result)


# From these offsets on, of both clusters: what each check of the sick one finds in the new messages.
OF_NEW_MESSAGES = {
    0: {
        "offsets_contiguous": 2,
        "raw_offsets_match_data": 2,
        "events_offsets_match_data": 3,
        "raw_is_in_events": 4,
    },
    8: {
        "offsets_contiguous": 0,
        "raw_offsets_match_data": 2,
        "events_offsets_match_data": 3,
        "raw_is_in_events": 2,
    },
    10: {"offsets_contiguous": 0, "raw_offsets_match_data": 2, "events_offsets_match_data": 3},
    12: {"events_offsets_match_data": 0},
}


@pytest.mark.parametrize(("start", "expected"), OF_NEW_MESSAGES.items())
def test_after_a_merge_new_messages_are_compared(run, start, expected):
    new = replace(run, compared_from={SICK: Position(start), WELL: Position(start)})
    evaluations = evaluate([check for check in CHECKS if check.of_new_messages], new)
    values = {
        each.check.name: result.value
        for each in evaluations
        for result in each.results
        if result.entity == str(SICK)
    }
    assert values == expected
    assert {each.entity for one in evaluations for each in one.failures} <= {str(SICK)}
    assert all(each.partial and not each.complete for each in evaluations)


def test_of_a_queue_that_was_never_compared_all_messages_are(run):
    evaluations = evaluate([BY_NAME["offsets_contiguous"]], replace(run, compared_from={}))
    values = {result.entity: result.value for each in evaluations for result in each.results}
    assert values == {str(SICK): 2, str(WELL): 0}


def test_while_an_alert_is_open_all_recent_messages_are_compared(run, monkeypatch):
    """Else the alert would stay open, or new messages would hide what is wrong with earlier ones."""
    checks, before = of_stage(run.settings, "merge"), {SICK: Position(10)}
    monkeypatch.setattr(run_checks.store, "read", lambda settings: [])
    assert run_checks.compared_from(run.settings, checks, before) == before
    assert run_checks.compared_from(run.settings, checks, None) is None
    for name, expected in (("body_errors", before), ("raw_is_in_events", None)):
        broken = evaluate([BY_NAME[name]], run)
        alerts = alert.advance([], broken, run.settings, NOW)
        monkeypatch.setattr(run_checks.store, "read", lambda settings, alerts=alerts: alerts)
        assert run_checks.compared_from(run.settings, checks, before) == expected, name


def test_once_a_day_all_recent_messages_are_compared(run, result):
    ours = run.settings.model_copy(update={"checks": Checks(integrity_days=36_500)})  # it looks at the clock
    wrong = history_tests.compare(result, ours, "swept")
    names = {check.name for check in CHECKS if check.of_new_messages}
    assert {line.partition(" ")[0] for line in wrong} == names
    rows = result.table("lake.ops.check_results").where("run = 'swept'").collect()
    assert {row.check for row in rows} == names
    assert {(row.partition or "since ").partition(" ")[0] for row in rows} == {"since"}
