"""Which fields distinguish layouts, and which values a field may have: one body per statement, all in one job."""

from __future__ import annotations

import time
from typing import Any

import pytest

from spark_jobs.trace.layouts import CONTEXT_CODES, MSG_TYPES
from tests.decode.compare import by_body
from tests.decode.conftest import Decoded

PUB = "Pub|1795000000000|DefaultRegion|shop|orders|AC11|new|k1|10.0.0.1:10911"
BEFORE = "SubBefore|1795000000000|DefaultRegion|mail|RQ|AC11|0|k1"
IPV6_ID = "20010DB8000000000000000000000001" + "000A18B4AAC2" * 2
BATCH = PUB.replace("AC11|new|k1", "AC11,AC12,AC13|null|null")

# What is said, a body (`|` is the separator of fields, `¶` the end of a record), and what its first row has.
STATEMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    # A user's text may hold a separator; then the fields do not fit.
    "a tag with a separator makes a Pub of 14 one of 15": (
        PUB.replace("new", "new|er") + "|128|3|0|OID|true¶",
        {"invalid_reason": "bad_store_host:storeHost"},
    ),
    "a key with the end of a record tears it": (
        PUB.replace("k1", "k1¶k2") + "|128|3|0|OID|true¶",
        {"invalid_reason": "field_count:8"},
    ),
    "and what comes after that end is another bad record": (
        "k2|10.0.0.1:10911|128|3|0|OID|true¶",
        {"invalid_reason": "unknown_type"},
    ),
    "a record with a cost that is no number is not complete, so nothing is cut off it": (
        f"SubAfter|RQ|AC11|{'9' * 309}|true|k1|0|SubAfter|RQ|AC12|5|true|k1|0¶",
        {"invalid_reason": "field_count:14"},
    ),
    "limit: a key 1|2 looks like the key and the code of an ONS record": (
        "SubAfter|RQ|AC11|5|true|1|2|0¶",
        {"layout": "sub_after_8_ons", "keys": "1", "context_code": "exception"},
    ),
    "limit: a key whose second part is an address looks like a client host": (
        BEFORE + "|10.0.0.9¶",
        {"layout": "sub_before_9", "keys": "k1", "client_host": "10.0.0.9"},
    ),
    # What the count alone does not tell.
    "no client writes a SubAfter of 10 fields that does not begin with a time": (
        "SubAfter|RQ|AC11|10.0.0.9|mail|x|7|false|k1|4¶",
        {"invalid_reason": "field_count:10"},
    ),
    "many fields more than any layout has are no layout's, the last one empty or not": (
        PUB + "|128|3|0|OID|true|10.0.0.9|||¶",
        {"invalid_reason": "field_count:18"},
    ),
    "two separators after the last field are one too many": (
        PUB + "|128|3|0|OID|true|10.0.0.9||¶",
        {"invalid_reason": "field_count:17"},
    ),
    "a clock that is of no use makes no other layout of a SubAfter": (
        "SubAfter|RQ|AC11|7|true|k1|0|99|mail¶",
        {"layout": "sub_after_9", "group_name": "mail", "event_time_suspect": True},
    ),
    "nor does it with a separator after the last field": (
        "SubAfter|RQ|AC11|7|true|k1|0|99|mail|¶",
        {"layout": "sub_after_9", "group_name": "mail", "event_time_suspect": True},
    ),
    "an ONS record may have a separator after its last field": (
        "SubAfter|RQ|AC11|7|true|k1|0|2|¶",
        {"layout": "sub_after_8_ons", "group_name": None},
    ),
    "a group may be empty": (
        "SubAfter|RQ|AC11|7|true|k1|0|1795000000000|¶",
        {"layout": "sub_after_9", "group_name": ""},
    ),
    "ONS's status is a number": (
        "SubAfter|RQ|AC11|7|true|k1|0|done¶",
        {"invalid_reason": "bad_integer:exactlyOnceStatus"},
    ),
    "a topic may have the name of a type where the type comes last, but then it is read as the first": (
        "Pub|AC11|new|k1|10.0.0.1:10911|128|3|Pub¶",
        {"invalid_reason": "field_count:8"},
    ),
    # Values.
    "a batch send is one Pub": (
        BATCH + "|384|3|0|O1,O2,O3|true¶",
        {"msg_id": "AC11,AC12,AC13", "offset_msg_id": "O1,O2,O3", "body_length": 384, "tags": "null"},
    ),
    "a listener that returned too late succeeded": (
        "SubAfter|RQ|AC11|900001|true|k1|1¶",
        {"success": True, "context_code": "timeout"},
    ),
    "an orderly listener that rolled back failed with the code of success": (
        "SubAfter|RQ|AC11|7|false|k1|0¶",
        {"success": False, "context_code": "success"},
    ),
    "ids of IPv6 producers are longer": (PUB.replace("AC11", IPV6_ID) + "|1|3|0¶", {"msg_id": IPV6_ID}),
    "names stay as on the wire, namespace and all": (
        PUB.replace("shop|orders", "MQ_INST_1%shop|%DLQ%MQ_INST_1%mail") + "|1|3|0¶",
        {"group_name": "MQ_INST_1%shop", "topic": "%DLQ%MQ_INST_1%mail"},
    ),
    "a time is no negative number": (
        BEFORE.replace("1795", "-1795") + "¶",
        {"invalid_reason": "bad_time:time"},
    ),
    "a length is no fraction": (PUB + "|1.5|3|0|OID|true¶", {"invalid_reason": "bad_integer:bodyLength"}),
    "a number that no bigint holds is none": (
        PUB + f"|{2**63}|3|0|OID|true¶",
        {"invalid_reason": "bad_integer:bodyLength"},
    ),
    "a cost may be negative": (PUB + "|1|-12.5|0|OID|true¶", {"cost_ms": -12.5}),
    **{
        f"{cost!r} is no cost": (f"SubAfter|RQ|AC11|{cost}|true|k1|0¶", {"invalid_reason": "bad_number:cost"})
        for cost in (" 7", "7 ", "+7", "7d", "7f", "0x7", "NaN", "Infinity", "1e3", ".5", "5.", "", "-", "٧")
    },
    **{
        f"message type {number}": (PUB + f"|1|3|{number}|OID|true¶", {"msg_type": name})
        for number, name in enumerate((*MSG_TYPES, "5"))
    },
    **{
        f"context code {number}": (f"SubAfter|RQ|AC11|7|true|k1|{number}¶", {"context_code": name})
        for number, name in enumerate((*CONTEXT_CODES, "5"))
    },
    **{
        f"{host!r} is a store host": (PUB.replace("10.0.0.1:10911", host) + "|1|3|0¶", {"store_host": host})
        for host in ("broker-0.example:10911", "[2001:db8::1]:10911", "null", "")
    },
    **{
        f"{host!r} is no store host": (
            PUB.replace("10.0.0.1:10911", host) + "|1|3|0¶",
            {"invalid_reason": "bad_store_host:storeHost"},
        )
        for host in ("broker-0", "broker-0:", ":10911", "broker-0:port", "NULL")
    },
    **{
        f"{host!r} is a client host": (BEFORE + f"|{host}¶", {"client_host": host})
        for host in (
            "10.0.0.9",
            "10.0.0.9@4711",
            "2001:db8::9",
            "fe80::9%eth0@4711",
            "[::1]",
            "::ffff:10.0.0.9",
        )
    },
    **{
        f"{host!r} is no client host": (
            BEFORE + f"|{host}¶",
            {"invalid_reason": "bad_client_host:clientHost"},
        )
        for host in ("client-9", "10.0.0", "10.0.0.9.1", "@4711", "null", "10.0.0.9 ")
    },
}


@pytest.fixture(scope="module")
def first_rows(decoded: Decoded) -> dict[str, dict[str, Any]]:
    wire = [body.replace("|", "\x01").replace("¶", "\x02").encode() for body, _ in STATEMENTS.values()]
    rows = by_body(decoded(wire))
    return {statement: rows[at][0] for at, statement in enumerate(STATEMENTS)}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement(statement: str, first_rows):
    row, (_, expected) = first_rows[statement], STATEMENTS[statement]
    wanted = {"invalid_reason": None} | expected
    assert {column: row[column] for column in wanted} == wanted


def test_a_body_may_hold_a_hundred_records(decoded: Decoded):
    body = "".join(f"{BEFORE}¶SubAfter|RQ|AC{n}|7|true|k1|0¶" for n in range(50))
    rows = decoded([body.replace("|", "\x01").replace("¶", "\x02").encode()])
    assert rows["record_index"].to_pylist() == list(range(100))
    assert rows["layout"].to_pylist() == ["sub_before_8", "sub_after_7"] * 50


LONG = (":", ":1", "1", "1.", "[:", "@", "%", "true", "SubAfter\x01", "\x02", "\xff\x02")


def test_a_long_text_costs_no_more_than_its_length(decoded: Decoded):
    """Whatever a field holds, nothing waits long for it: a pattern does not try each place with each other one."""
    decoded(with_a_long_field("x"))
    begin = time.monotonic()
    decoded([body for _ in LONG for body in with_a_long_field("x")])
    plain = time.monotonic() - begin
    decoded([body for text in LONG for body in with_a_long_field(text)])
    assert time.monotonic() - begin < 10 * plain + 5


def with_a_long_field(text: str) -> list[bytes]:
    field = (text * 20_000)[:20_000]
    lines = (
        f"{BEFORE}|{field}¶",
        f"{BEFORE}|{field}x¶",
        f"{PUB[: PUB.rindex('|')]}|{field}x|1|3|0¶",
        f"SubAfter|RQ|AC11|{field}|true|k1|0¶",
    )
    return [line.replace("|", "\x01").replace("¶", "\x02").encode("latin-1") for line in lines]
