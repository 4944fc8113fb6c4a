"""Which rows a collection ends and adds: intervals are complete, never overlap, and unchanged facts add none."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.broker_facts.changes import Current, Found, changes
from spark_jobs.broker_facts.fact_tables import FACT_TABLES, FactTable, Key
from spark_jobs.lake.tables import CONSUMERS, GROUP_OFFSETS, TOPIC_OFFSETS, TOPICS

BY_TABLE = {each.table: each for each in FACT_TABLES}
START = datetime(2026, 11, 24, tzinfo=UTC)
STEP, INTERVAL, JUMP = timedelta(minutes=5), timedelta(minutes=12), 100
BROKERS, NAMES = ("a", "b"), ("t1", "t2", "t3")


@dataclass
class Recorded:
    """A table as its commits make it: every row with the time from which and to which it is valid."""

    facts: FactTable
    rows: list[dict[str, Any]] = field(default_factory=list)

    def observe(self, at: datetime, found: Found) -> int:
        """Apply one collection; return the number of rows added."""
        current = {self.facts.key_of(row): row for row in self.rows if row["valid_to"] is None}
        state = {key: Current(row["digest"], row["valid_from"]) for key, row in current.items()}
        done = changes(
            self.facts, state, lambda keys: {k: current[k] for k in keys}, found, at, INTERVAL, JUMP
        )
        for key in done.ended:
            current[key]["valid_to"] = at
        self.rows += [row | {"valid_from": at, "valid_to": None} for row in done.added]
        return len(done.added)

    def valid_at(self, at: datetime) -> dict[Key, dict[str, Any]]:
        valid = [
            row
            for row in self.rows
            if row["valid_from"] <= at and (row["valid_to"] is None or at < row["valid_to"])
        ]
        assert max(Counter(map(self.facts.key_of, valid)).values(), default=1) == 1, "two rows of one fact"
        return {self.facts.key_of(row): row for row in valid}


# What a broker answers: None (nothing), or its topics with their permission.
ANSWERS = st.none() | st.dictionaries(st.sampled_from(NAMES), st.integers(2, 7), max_size=3)
COLLECTIONS = st.lists(st.fixed_dictionaries(dict.fromkeys(BROKERS, ANSWERS)), max_size=8)


def topic_row(broker: str, topic: str, perm: int) -> dict[str, Any]:
    of_topic = {"kind": "normal", "of_group": None, "message_type": None, "read_queues": 4, "write_queues": 4}
    return {"broker": broker, "topic": topic, **of_topic, "perm": perm, "is_ordered": False}


def topics_found(answers: dict[str, dict[str, int] | None]) -> Found:
    rows = [
        topic_row(b, topic, perm) for b, topics in answers.items() for topic, perm in (topics or {}).items()
    ]
    return Found(rows, lambda key: answers[key[0]] is not None)


@given(COLLECTIONS)
@settings(deadline=None)
def test_at_any_time_the_valid_rows_are_what_was_last_answered(collections):
    recorded, known = Recorded(BY_TABLE[TOPICS]), dict[Key, int]()
    expected = []
    for number, answers in enumerate(collections):
        found, at = topics_found(answers), START + number * STEP
        before = dict(known)
        for broker, topics in answers.items():
            if topics is not None:
                known = {key: perm for key, perm in known.items() if key[0] != broker}
                known |= {(broker, topic): perm for topic, perm in topics.items()}
        added = recorded.observe(at, found)
        assert added == sum(before.get(key) != perm for key, perm in known.items())
        assert recorded.observe(at + STEP / 2, found) == 0, "unchanged facts add no row"
        expected.append((at, known))
    for at, facts in expected:
        assert {key: row["perm"] for key, row in recorded.valid_at(at).items()} == facts


OFFSETS = st.lists(st.dictionaries(st.integers(0, 2), st.integers(0, 400), min_size=1), max_size=10)


def offsets_found(consumed: dict[int, int], pulled: int | None = None) -> Found:
    same = {"broker_offset": 400, "last_consumed_at": None, "pull_offset": pulled}
    queues = [{"queue_id": queue, "consumer_offset": offset} | same for queue, offset in consumed.items()]
    return Found(
        [
            {
                "broker": "a",
                "group_name": "g",
                "topic": "t",
                "queues": sorted(queues, key=lambda q: q["queue_id"]),
            }
        ]
    )


@given(OFFSETS)
@settings(deadline=None)
def test_recorded_offsets_are_never_ahead_and_at_most_an_interval_behind(history):
    recorded = Recorded(BY_TABLE[GROUP_OFFSETS])
    previous: dict[int, int] | None = None
    since, times = START, []
    for number, consumed in enumerate(history):
        at = START + number * STEP
        added = recorded.observe(at, offsets_found(consumed))
        (row,) = recorded.valid_at(at).values()
        kept = {queue["queue_id"]: queue["consumer_offset"] for queue in row["queues"]}
        assert kept.keys() == consumed.keys()
        assert all(kept[queue] <= offset for queue, offset in consumed.items()), "a claim that is not proven"
        if previous is None or added:
            assert previous is None or previous != consumed
            previous, since = consumed, at
            times.append(at)
        elif previous != consumed:
            assert at - since < INTERVAL, "a change was not recorded in time"
            assert all(offset - previous[queue] <= JUMP for queue, offset in consumed.items())
    assert len(recorded.rows) == len(times)


def test_a_steady_consumer_adds_a_row_per_interval():
    recorded = Recorded(BY_TABLE[GROUP_OFFSETS])
    added = [recorded.observe(START + n * STEP, offsets_found({0: n})) for n in range(13)]
    assert added == [1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1]


def test_a_jump_is_recorded_at_once():
    recorded = Recorded(BY_TABLE[GROUP_OFFSETS])
    history = [{0: 50}, {0: 60}, {0: 20}, {0: 300}, {0: 300, 1: 0}, {0: 301, 1: 1}]
    added = [
        recorded.observe(START + n * timedelta(seconds=1), offsets_found(each))
        for n, each in enumerate(history)
    ]
    assert added == [1, 0, 1, 1, 1, 0]


def test_an_offset_that_is_set_beyond_what_was_pulled_is_recorded_at_once():
    recorded = Recorded(BY_TABLE[GROUP_OFFSETS])
    history = [(50, 50), (51, 51), (52, 51), (52, 60)]
    added = [
        recorded.observe(START + n * timedelta(seconds=1), offsets_found({0: offset}, pulled))
        for n, (offset, pulled) in enumerate(history)
    ]
    assert added == [1, 0, 1, 0]


def ends_found(ends: dict[int, int], minimum: int = 0) -> Found:
    queues = [
        {"queue_id": queue, "min_offset": minimum, "max_offset": end, "last_stored_at": None}
        for queue, end in ends.items()
    ]
    return Found([{"broker": "a", "topic": "t", "queues": queues}])


def test_expired_messages_are_no_change_of_a_topic_and_a_recreated_topic_is():
    recorded = Recorded(BY_TABLE[TOPIC_OFFSETS])
    steps = [ends_found({0: 9}), ends_found({0: 9}, minimum=5), ends_found({0: 10}), ends_found({0: 3})]
    assert [recorded.observe(START + n * timedelta(seconds=1), each) for n, each in enumerate(steps)] == [
        1,
        0,
        0,
        1,
    ]


def test_another_client_or_release_of_a_consumer_group_is_a_change():
    recorded = Recorded(BY_TABLE[CONSUMERS])

    def found(client_id: str, version: int, connections: int = 1) -> Found:
        row = {
            **{"broker": "a", "group_name": "g", "online": True, "consume_type": "CONSUME_PASSIVELY"},
            **{"message_model": "CLUSTERING", "consume_from": "x", "languages": ("JAVA",)},
            **{"versions": (version,), "client_ids": (client_id,), "connections": connections},
        }
        return Found([row])

    steps = [found("1@1", 409), found("1@1", 409), found("1@2", 409), found("1@2", 513), found("1@2", 513, 2)]
    assert [recorded.observe(START + n * STEP, each) for n, each in enumerate(steps)] == [1, 0, 1, 1, 1]


def test_every_table_is_keyed_by_broker_and_compares_what_describes_a_fact():
    columns = defaultdict(list)
    for facts in FACT_TABLES:
        assert facts.key[0] == "broker"
        assert set(facts.key) <= set(facts.table.column_names)
        assert facts.table.partitioned_by == "cluster, days(valid_to)"
        columns[facts.table.name] = facts.table.column_names[-4:]
    assert set(map(tuple, columns.values())) == {("digest", "valid_from", "valid_to", "run_id")}
