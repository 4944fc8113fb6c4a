"""The daily tests of all rows find what no build writes any more."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from spark_jobs.alerts import silences
from spark_jobs.jobs import history_tests
from spark_jobs.mart_build import branches
from tests.planning import run_jobs_on


def verdicts(marts, run: str) -> dict[str, bool]:
    """Test name to its saved result."""
    rows = (
        marts.table("lake.ops.check_results").where(f"run = '{run}' and `check` = 'history_tests'").collect()
    )
    return {row.entity: row.passed for row in rows}


@pytest.fixture
def doubled(marts, catalog):
    """A row of a mart stands there twice."""
    head = branches.heads(catalog, "marts.retries")["main"]
    marts.sql("insert into lake.marts.retries select * from lake.marts.retries limit 1")
    yield
    marts.sql(f"call lake.system.set_current_snapshot('lake.marts.retries', {head})")


def test_a_row_that_stands_twice_is_found(marts, settings, doubled):
    tested = history_tests.over_all_rows(marts, settings, "sick")
    assert tested is not None
    assert not tested.passed
    failed = {name for name, passed in verdicts(marts, "sick").items() if not passed}
    assert "facts_add_up_to_marts" in failed
    assert "unique_combination_of_columns_retries" in failed
    assert len(failed) == 2


def test_builds_that_wait_for_it_raise_no_alert(marts, settings, monkeypatch):
    run_jobs_on(settings, monkeypatch)
    monkeypatch.setattr(history_tests, "over_all_rows", lambda *_: None)
    monkeypatch.setattr(history_tests, "compare", lambda *_: [])
    history_tests.main(["--run-id", "waited for"])
    found = {
        each.match for each in silences.windows(settings, datetime.now(UTC)) if each.run_id == "waited for"
    }
    assert found == {"*:marts_silent*", "*:freshness_marts*"}


def test_what_is_published_passes_also_if_the_models_are_others_now(marts, settings):
    """It is tested with the published models."""
    other = settings.model_copy(update={"limits": settings.limits.model_copy(update={"grace_seconds": 1})})
    tested = history_tests.over_all_rows(marts, other, "other")
    assert tested is not None
    assert tested.passed
    found = verdicts(marts, "other")
    assert set(found.values()) == {True}
    assert {"facts_add_up_to_marts", "clusters_have_watermarks"} < set(found)
    assert sum(name.startswith("unique_combination_of_columns_") for name in found) > 20

    kept = settings.home / "dbt" / "published"
    aside = kept.rename(kept.with_name("aside"))
    try:
        assert history_tests.over_all_rows(marts, other, "unknown") is None
    finally:
        aside.rename(kept)
