"""`lake.ops.check_results` has the changes of the verdicts and a summary of each day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest

from spark_jobs.checks import results
from spark_jobs.checks.check import Evaluation, Result
from spark_jobs.checks.registry import BY_NAME
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import CHECK_RESULTS
from spark_jobs.settings import Settings

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def lag(value: float, passed: bool, entity: str = "a") -> Evaluation:
    return Evaluation(BY_NAME["lag"], "warning", (Result(entity, value, 10.0, passed, f"{value}"),), True)


@pytest.fixture
def ours(result, settings):
    """The settings; the table is empty before and after."""
    result.sql(f"delete from {CHECK_RESULTS.full_name}")
    yield settings
    result.sql(f"delete from {CHECK_RESULTS.full_name}")


def saved(settings) -> list[tuple]:
    """Entity, verdict, values (newest, least, largest), evaluations, first and last time as hours of the first day."""
    rows = lake(settings).load_table(CHECK_RESULTS.name).scan().to_arrow().to_pylist()
    begin = NOON.replace(hour=0)
    return [
        (
            *(
                row[name]
                for name in ("entity", "passed", "value", "least_value", "largest_value", "evaluations")
            ),
            *((row[name] - begin) / timedelta(hours=1) for name in ("first_evaluated_at", "evaluated_at")),
        )
        for row in sorted(rows, key=lambda row: (row["evaluated_at"], row["entity"]))
    ]


def test_a_row_stands_for_the_evaluations_of_a_day_with_the_same_verdict(ours):
    for hour, value in ((12, 3), (13, 1), (14, 20), (15, 30), (16, 2), (23, 4), (24, 5), (25, 6)):
        results.save(ours, [lag(value, value <= 10)], f"run {hour}", NOON + timedelta(hours=hour - 12))
    assert saved(ours) == [
        ("a", True, 1, 1, 3, 2, 12, 13),
        ("a", False, 30, 20, 30, 2, 14, 15),
        ("a", True, 4, 2, 4, 2, 16, 23),
        ("a", True, 6, 5, 6, 2, 24, 25),
    ]
    assert results.first_evaluated_at(ours, "lag", "a") == NOON
    assert results.first_evaluated_at(ours, "lag", "b") is None


def test_entities_and_limits_have_rows_of_their_own(ours):
    results.save(ours, [lag(1, True, "a"), lag(2, True, "b")], "first", NOON)
    results.save(ours, [lag(3, True, "b")], "second", NOON + timedelta(hours=1))
    raised = Evaluation(BY_NAME["lag"], "warning", (Result("b", 4.0, 20.0, True, "4"),), True)
    results.save(ours, [raised], "third", NOON + timedelta(hours=2))
    assert [row[:6] for row in saved(ours)] == [
        ("a", True, 1, 1, 1, 1),
        ("b", True, 3, 2, 3, 2),
        ("b", True, 4, 4, 4, 1),
    ]


def test_what_could_not_be_measured_has_no_value(ours):
    unknown = Evaluation(BY_NAME["lag"], "warning", (Result("a", None, 10.0, None, "no answer"),), False)
    for minute in range(2):
        results.save(ours, [unknown], "run", NOON + timedelta(minutes=minute))
    assert [row[:6] for row in saved(ours)] == [("a", None, None, None, None, 2)]


def test_writers_at_the_same_time_lose_nothing(ours):
    """Jobs save their results side by side; each commit reads the rows of the day again."""
    results.save(ours, [lag(0, True)], "first", NOON)

    def save(name: str) -> None:
        for minute in range(4):
            results.save(ours, [lag(1, True, name)], name, NOON + timedelta(minutes=minute))

    threads = [Thread(target=save, args=(name,)) for name in ("b", "c", "d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {row[0]: row[5] for row in saved(ours)} == {"a": 1, "b": 4, "c": 4, "d": 4}


def test_a_row_of_an_earlier_version_does_not_go_on():
    (new,) = results.rows_of([lag(1, True)], Settings(), "run", NOON)
    later = {"evaluations", "first_evaluated_at", "least_value", "largest_value"}
    old = {name: value for name, value in new.items() if name not in later}
    for before in (old, old | dict.fromkeys(later)):
        assert results.added([before], [new]) == [before, new]
