"""Addresses of messages, and numbers as the pages show them."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import parse_qs, urlsplit

import pytest

from spark_jobs.checks.formatting import milliseconds, precise, visible
from spark_jobs.lookup.address import minute, of_message, of_search


def test_a_plain_id_is_in_the_path():
    assert of_message("prod", "0A0000") == "/messages/prod/0A0000"
    assert of_message("prod", "0A0000", "records") == "/messages/prod/0A0000/records"


@pytest.mark.parametrize(
    "msg_id", ["a/b", "..", ".", "a?b", "a#b", "a%2Fb", "a b", "a&b=c", "é", '"', "a+b", ""]
)
def test_another_id_is_in_the_query_where_nothing_changes_it(msg_id):
    address = urlsplit(of_message("prod", msg_id, "records"))
    assert address.path == "/message/records"
    found = parse_qs(address.query, keep_blank_values=True)
    assert found == {"cluster": ["prod"], "msg_id": [msg_id]}
    assert address.query.isascii()


def test_a_search_has_the_conditions_that_are_given():
    assert of_search(cluster="prod", topic="", group="a&b", from_="2026-11-24T13:30") == (
        "/messages?cluster=prod&group=a%26b&from=2026-11-24T13%3A30"
    )


def test_a_range_of_minutes_contains_its_times():
    time = datetime(2026, 11, 24, 13, 30, 1)
    assert (minute(time), minute(time, is_end=True)) == ("2026-11-24T13:30", "2026-11-24T13:31")
    assert minute(datetime(2026, 11, 24, 13, 30), is_end=True) == "2026-11-24T13:30"


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        *((0, "0 ms"), (0.4, "0.4 ms"), (12, "12 ms"), (-40, "-40 ms"), (999.4, "999 ms"), (999.6, "1 s")),
        *((3400, "3.4 s"), (59_990, "1 min"), (125_000, "2 min 5 s"), (11_520_000, "3 h 12 min")),
        *((1e30, "1157407 d 9 h"),),
    ],
)
def test_durations_are_readable(ms, shown):
    assert milliseconds(ms) == shown


def test_times_have_milliseconds_and_raw_text_keeps_its_spaces():
    assert precise(datetime(2026, 11, 24, 1, 2, 3, 4567)) == "2026-11-24 01:02:03.004"
    assert visible("a  b\n\u202e\x01") == "a  b\\u000a\\u202e\\u0001"
