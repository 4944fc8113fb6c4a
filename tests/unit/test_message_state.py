"""The state of a message for a group, from what a broker says of both; and what is kept of a stored message."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.broker_facts.message_state import Copies, GroupFacts, State, includes, state_of
from spark_jobs.broker_facts.parse import Subscription
from spark_jobs.broker_facts.stored_messages import StoredMessage, due_at, stored_messages
from spark_jobs.rocketmq.offset_id import OffsetId, decode_offset_id

AT = datetime(2026, 11, 24, 12, tzinfo=UTC)
MESSAGE = StoredMessage("t", 1, 7, 4711, AT, "m", "a", "t", None, None, 0)
ALL = Subscription("t", "TAG", "*", (), False)
ONLY_B = Subscription("t", "TAG", "b || c", ("b", "c"), False)
SQL = Subscription("t", "SQL92", "x > 1", (), False)
RETRY = replace(MESSAGE, topic="%RETRY%g", queue_id=0, queue_offset=3, reconsume_times=2)


def group(offset: int | None = 8, **given) -> GroupFacts:
    offsets = {} if offset is None else {("t", 1): offset}
    known = {"online": True, "message_model": "CLUSTERING", "subscription": ALL, "are_offsets_known": True}
    return GroupFacts(**{**known, "offsets": offsets, **given})


@pytest.mark.parametrize(
    ("of_group", "state"),
    [
        (group(8), State.CONSUMED),
        (group(7), State.NOT_CONSUMED),
        (group(None), State.NOT_CONSUMED),
        (group(7, online=False), State.OFFLINE),
        (group(7, online=None), State.UNKNOWN),
        (group(8, online=None), State.CONSUMED),
        (group(8, online=False), State.CONSUMED),
        (group(8, subscription=SQL), State.CONSUMED_OR_FILTERED),
        (group(7, subscription=SQL), State.NOT_CONSUMED),
        (group(8, subscription=None), State.CONSUMED_OR_FILTERED),
        (group(8, subscription=ONLY_B), State.FILTERED),
        (group(7, subscription=ONLY_B, online=False), State.FILTERED),
        (group(7, are_offsets_known=False), State.UNKNOWN),
        (group(None, are_offsets_known=False, subscription=ONLY_B), State.FILTERED),
        (group(8, message_model="BROADCASTING"), State.BROADCASTING),
        (group(8, message_model="BROADCASTING", subscription=ONLY_B), State.BROADCASTING),
    ],
)
def test_the_state_of_a_delivered_message(of_group: GroupFacts, state: State):
    assert state_of(MESSAGE, False, of_group) is state


def test_the_offset_of_another_queue_says_nothing():
    assert state_of(MESSAGE, False, group(None, offsets={("t", 0): 100, ("u", 1): 100})) is State.NOT_CONSUMED


def test_a_message_that_the_broker_holds():
    assert state_of(MESSAGE, True, group(100)) is State.NOT_DELIVERED
    assert state_of(MESSAGE, True, group(100, subscription=ONLY_B)) is State.FILTERED
    assert state_of(MESSAGE, None, group(100)) is State.UNKNOWN
    assert state_of(None, None, group(100)) is State.UNKNOWN


def test_a_recalled_message_is_for_no_group_unless_it_was_delivered():
    for of_group in (group(100), group(7, online=False), group(8, subscription=ONLY_B)):
        assert state_of(MESSAGE, True, of_group, is_recalled=True) is State.RECALLED
    assert state_of(MESSAGE, False, group(8), is_recalled=True) is State.CONSUMED
    assert state_of(MESSAGE, None, group(8), is_recalled=True) is State.UNKNOWN


@pytest.mark.parametrize(
    ("copies", "retry_offset", "state"),
    [
        (Copies(), None, State.CONSUMED),
        (Copies(dead_letters=(MESSAGE,), retries=(RETRY,)), 4, State.DEAD_LETTER),
        (Copies(retries=(RETRY,)), 3, State.RETRYING),
        (Copies(retries=(RETRY,)), None, State.RETRYING),
        (Copies(retries=(RETRY,)), 4, State.CONSUMED),
        (Copies(waiting=(RETRY,)), None, State.RETRYING),
        (Copies(retries=(RETRY,), waiting=(RETRY,)), 4, State.CONSUMED),
        (Copies(retries=(RETRY,), waiting=(replace(RETRY, reconsume_times=3),)), 4, State.RETRYING),
    ],
)
def test_a_message_that_was_sent_back(copies: Copies, retry_offset: int | None, state: State):
    """The copy that waited stays in the commit log after its delivery, with as many retries as the one in the retry topic."""
    offsets = {("t", 1): 8} | ({} if retry_offset is None else {("%RETRY%g", 0): retry_offset})
    assert state_of(MESSAGE, False, group(offsets=offsets), copies) is state
    assert state_of(MESSAGE, False, group(7), copies) is State.NOT_CONSUMED, "it was not sent back yet"


def test_which_tags_a_subscription_includes():
    tags = ("a", "b", None)
    assert [includes(ALL, each) for each in tags] == [True, True, True]
    assert [includes(ONLY_B, each) for each in tags] == [False, True, False]
    assert [includes(SQL, each) for each in tags] == [None, None, None]
    assert includes(replace(ONLY_B, class_filter=True), "a") is None
    assert includes(None, "a") is None


def test_when_a_held_message_is_due():
    delayed = replace(MESSAGE, topic="SCHEDULE_TOPIC_XXXX", delay_level=3)
    assert due_at(delayed, "1s 5s 2m 1h") == AT + timedelta(minutes=2)
    assert [due_at(delayed, levels) for levels in (None, "", "1s 5s", "1s 5s ?")] == [None] * 4
    assert due_at(replace(delayed, topic="t"), "1s 5s 2m") is None, "its store time is that of the delivery"
    assert due_at(replace(MESSAGE, timer_at=AT), None) == AT
    assert due_at(MESSAGE, "1s") is None


@pytest.mark.parametrize("body", [b"x", b"\0\0\0\x10" + b"\xff" * 200, bytes(91)])
def test_an_answer_of_another_shape_is_an_error_without_the_answer(body: bytes):
    with pytest.raises(ValueError, match=r"^stored_messages: the answer has another shape \(\w+\)$"):
        stored_messages(body)


def test_the_broker_s_id_of_a_message():
    assert decode_offset_id("7F00000100002A9F00000000000003E8") == OffsetId("127.0.0.1:10911", 1000)
    v6 = "00000000000000000000000000000001" + "00002A9F" + "00000000000003E8"
    assert decode_offset_id(v6) == OffsetId("[::1]:10911", 1000)
    for text in (
        "",
        "7F000001",
        "C0A80164" * 4 + "0",
        "x" * 32,
        "7F 00000100002A9F00000000000003E",
        "ä" * 32,
    ):
        assert decode_offset_id(text) is None
