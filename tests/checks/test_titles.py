"""Alert titles: where, what is wrong, and the value against the limit."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from spark_jobs.alerts.alert import advance
from spark_jobs.checks.check import Check, Measured, Result, Run, could_not_be_made, judge
from spark_jobs.checks.evaluate import evaluate
from spark_jobs.checks.formatting import amount, duration, printable
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.checks.titles import LONGEST, title
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import RAW
from spark_jobs.settings import Checks, Settings
from tests.checks.test_alerts import minute

QUEUE = "prod/RMQ_SYS_TRACE_TOPIC/broker-a/0"
ON_QUEUE = "RMQ_SYS_TRACE_TOPIC (broker-a, queue 0)"
SETTINGS = Settings(environment="prod", checks=Checks(lag_messages=10_000))


def opened(check: str, *measured: Measured) -> list[str]:
    alerts = advance([], [judge(BY_NAME[check], measured, SETTINGS)], SETTINGS, minute(0))
    return [alert.summary for alert in alerts]


@pytest.mark.parametrize(
    ("check", "entity", "value", "expected"),
    [
        ("lag", QUEUE, 48_211, f"prod: 48,211 messages wait on {ON_QUEUE}, limit 10,000"),
        ("lag", f"east{QUEUE[4:]}", 48_211, f"prod/east: 48,211 messages wait on {ON_QUEUE}, limit 10,000"),
        ("retention_headroom", QUEUE, 12.34, f"prod: the broker deletes unread messages of {ON_QUEUE} in 12.3 h, minimum 24 h"),
        ("completeness", "prod", 0.8123, "prod: only 81.2 % of the consumer records arrived, minimum 90 %"),
        ("freshness_raw", "prod", 192.0, "prod: the trace topics were last read completely 3 h 12 min ago, limit 30 min"),
        ("freshness_raw", "prod", 30.2, "prod: the trace topics were last read completely just over 30 min ago, limit 30 min"),
        ("group_silent", "prod/mail", 61.0, "prod: inferred from traces: mail has consumed nothing for 1 h 1 min, limit 1 h"),
        ("clock_skew", "prod/10.0.0.7", 45_000.0, "prod: the clock of 10.0.0.7 is wrong by 45,000 ms, limit 30,000 ms"),
        ("ingest_silent", None, 40.0, "prod: no commit to raw or events for 40 min, limit 20 min"),
        ("offsets_contiguous", QUEUE, 2, f"prod: 2 offset(s) of {ON_QUEUE} are missing or stored twice in raw"),
        ("task_failed", "trace_ingest/extracted/prod", 1, "prod: task trace_ingest/extracted/prod failed"),
        (
            "orphan_rate",
            "prod/orders/mail",
            0.09,
            "prod: not proven: 9 % of the messages of orders have no trace of a consumption by mail, limit 1 %",
        ),
        (
            "orphans_proven",
            "prod/orders/mail",
            0.09,
            "prod: proven: 9 % of the messages of orders were not consumed by mail, limit 0.1 %",
        ),
    ],
)  # fmt: skip
def test_the_title_says_what_is_wrong_where_and_the_value_against_the_limit(check, entity, value, expected):
    assert opened(check, Measured(entity, value)) == [expected]


@pytest.mark.parametrize("check", BY_NAME.values(), ids=list(BY_NAME))
def test_a_check_that_raised_has_its_own_title(check: Check):
    broken = could_not_be_made(check, ConnectionError("no answer"), SETTINGS)
    (alert,) = advance([], [broken], SETTINGS, minute(0))
    assert alert.summary == f"prod: could not be checked: {check.name}: ConnectionError: no answer"
    assert alert.description == "could not be checked: ConnectionError: no answer"
    assert check.definition not in alert.summary
    assert (alert.value, alert.threshold) == (None, broken.results[0].threshold)


def test_an_entity_that_could_not_be_measured_is_named_with_the_reason():
    assert opened("lag", Measured("east", None, "broker-a is down"), Measured(QUEUE, None, "it is gone")) == [
        "prod/east: could not be checked: lag: broker-a is down",
        f"prod: could not be checked: lag of {ON_QUEUE}: it is gone",
    ]


def test_what_has_never_happened_is_not_a_failed_check():
    never = Measured(None, None, "lake.raw.trace_messages: nothing was ever published", "never")
    assert opened("ingest_silent", never) == [
        "prod: ingest_silent: lake.raw.trace_messages: nothing was ever published, limit 20 min"
    ]


def test_a_check_without_a_title_gets_one_from_its_definition():
    plain = replace(
        BY_NAME["watchdog"], name="new", definition="it is too much", limit="lag_messages", title=None
    )
    result = Result("a/b", 12_000, 10_000, False, "detail")
    assert title(plain, result, "prod") == "prod: new: a/b: 12,000, limit 10,000: it is too much"
    assert (
        title(plain, replace(result, entity=None), "prod")
        == "prod: new: 12,000, limit 10,000: it is too much"
    )


ENTITIES = (None, "", "a", QUEUE, "{value}/{0}/{x.y}", "\n/\u202e", "x" * 5000, "a/" * 20)


@pytest.mark.parametrize("check", BY_NAME.values(), ids=list(BY_NAME))
def test_any_entity_and_any_value_has_a_title(check):
    for entity, value in itertools.product(ENTITIES, (None, 0.0, -1.0, 1e-9, 1e18, math.inf, math.nan)):
        found = title(check, Result(entity, value, 1.0, False, "why"), "prod")
        assert found.startswith("prod")
        assert found == printable(found)
        assert len(found) <= LONGEST


def test_the_title_of_an_open_alert_follows_the_newest_failure():
    """Alertmanager replaces the annotations each time; the labels, its identity, stay the same."""
    check = BY_NAME["lag"]
    alerts = advance([], [judge(check, [Measured(QUEUE, 20_000)], SETTINGS)], SETTINGS, minute(0))
    (alert,) = advance(alerts, [judge(check, [Measured(QUEUE, 30_000)], SETTINGS)], SETTINGS, minute(5))
    assert alert.summary.startswith("prod: 30,000 messages wait")
    assert (alert.value, alert.threshold, alert.first_failed_at) == (30_000, 10_000, minute(0))


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (48_211, "count", "48,211"),
        (0.045, "share", "4.5 %"),
        (12.3, "hours", "12.3 h"),
        (192, "minutes", "3 h 12 min"),
        (0.5, "minutes", "30 s"),
        (2 * 24 * 60, "minutes", "2 d"),
        (30_000, "ms", "30,000 ms"),
    ],
)
def test_an_amount_has_its_unit(value, unit, shown):
    assert amount(value, unit) == shown


def test_a_duration_has_two_units_at_most():
    spans = (
        timedelta(seconds=59.6),
        timedelta(hours=23, minutes=59, seconds=50),
        timedelta(days=3, hours=4.4),
    )
    assert list(map(duration, spans)) == ["1 min", "1 d", "3 d 4 h"]


def test_a_truncated_metadata_file_is_named(result, watched, settings):
    """By the checks that read with pyiceberg and by those that read with Spark."""
    table = lake(settings).load_table(RAW.name)
    file = Path(table.metadata_location.removeprefix("file://").removeprefix("file:"))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    try:
        checks = [BY_NAME["freshness_raw"], BY_NAME["lag"], BY_NAME["body_errors"]]
        found = evaluate(checks, Run(watched, minute(0), result))
    finally:
        file.write_bytes(whole)
    alerts = advance([], found, SETTINGS, minute(0))
    assert [alert.check for alert in alerts] == [check.name for check in checks]
    for alert in alerts:
        assert alert.summary.startswith(f"prod: could not be checked: {alert.check}: ")
        assert str(file) in alert.description
    assert alerts[0].description.startswith(
        "could not be checked: DamagedTableError: table raw.trace_messages: metadata file"
    )
