"""When a build of the marts is due although no record and no broker fact is new."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.lake.tables import MESSAGE_CHECKS, OBSERVATIONS
from spark_jobs.mart_build.due import PERIODS, LastBuild, by_time
from spark_jobs.settings import PROJECT, Checks, Limits, Settings

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LAST = LastBuild("a", NOON + timedelta(minutes=16), None, None, None)
SETTINGS = Settings(
    limits=Limits(grace_seconds=900, offsets_lag_seconds=900), checks=Checks(group_silent_minutes=60)
)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("last", "minutes", "why"),
    [
        pytest.param(LAST, 17, None, id="nothing changes"),
        # Trace coverage judges the hour from 12:00 when the watermark has passed its end and the grace.
        pytest.param(LAST, 74.9, None, id="the hour is open"),
        pytest.param(LAST, 75, "an hour has passed", id="the hour is judged"),
        pytest.param(replace(LAST, next_review_at=at(30)), 29.9, None, id="no state changes yet"),
        pytest.param(
            replace(LAST, next_review_at=at(30)), 30, "the state of a message changes", id="a state changes"
        ),
        # The longer of the two limits, and twice the grace: 90 minutes.
        pytest.param(
            replace(LAST, last_unconsumed_at=at(-73)), 17, "messages were not consumed", id="not settled"
        ),
        pytest.param(replace(LAST, last_unconsumed_at=at(-74)), 17, None, id="settled"),
        pytest.param(
            replace(LAST, last_unconsumed_at=at(-74), as_of=at(15)),
            17,
            "messages were not consumed",
            id="the broker facts are older than the watermark",
        ),
    ],
)
def test_a_build_is_due_when_time_alone_changes_what_readers_see(
    last: LastBuild, minutes: float, why: str | None
):
    found = by_time(last, at(minutes), SETTINGS)
    assert found is None if why is None else found is not None and found.startswith(why), found


def test_all_broker_facts_that_models_read_make_a_build_due():
    staging = (PROJECT / "dbt_project" / "models" / "staging").glob("*.sql")
    read = {
        name
        for file in staging
        for name in re.findall(r"source\('broker_facts', '(\w+)'\)", file.read_text())
    }
    asked = {table.name.partition(".")[2] for table in (*PERIODS, MESSAGE_CHECKS, OBSERVATIONS)}
    assert asked == read
