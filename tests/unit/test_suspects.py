"""Which suspected messages are looked up: newest first, and spread over topics, groups and tags."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from spark_jobs.broker_facts.suspects import Suspect, spread

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def made(topic: str, group: str | None, tags: str | None, *minutes: int) -> list[Suspect]:
    times = [NOON - timedelta(minutes=each) for each in minutes]
    return [Suspect(topic, f"{topic}{group}{tags}{at:%H%M}", group, tags, at, NOON, None) for at in times]


def test_one_of_each_kind_in_turn_the_newest_first():
    busy, rare = made("t", "g", "a", 5, 1, 2, 3), made("t", "g", "b", 50)
    other, no_group = made("u", "g", "a", 40, 30), made("t", None, "a", 60)
    chosen = spread([*other, *busy, *rare, *no_group], 6)
    assert chosen == [busy[1], other[1], rare[0], no_group[0], busy[2], other[0]]


def test_never_more_than_the_bound_and_all_if_there_are_fewer():
    many = [each for topic in "abc" for each in made(topic, "g", None, *range(50))]
    assert Counter(each.topic for each in spread(many, 10)) == {"a": 3, "b": 3, "c": 4}
    assert len(spread(many, 1000)) == len(many) == len(set(spread(many, 1000)))
    assert spread(many, 0) == []
    assert spread([], 10) == []
