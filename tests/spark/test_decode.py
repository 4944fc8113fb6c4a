"""Each record of a body becomes one row: the values that the client wrote, or Invalid with a reason."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from spark_jobs.lake import tables
from spark_jobs.trace.decode import OUTPUT, decode
from spark_jobs.trace.layouts import BY_NAME, LAYOUTS

S, R = "\x01", "\x02"
STORED = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
TIME = str(int(STORED.timestamp() * 1000) - 1234)
EVENT_TIME = STORED - timedelta(milliseconds=1234)

PUB = ["Pub", TIME, "DefaultRegion", "pg", "orders", "AC11", "TagA", "k1 k2", "10.0.0.1:10911"]
SUB_BEFORE = ["SubBefore", TIME, "DefaultRegion", "cg", "RQ", "AC11", "2", "k1"]
SUB_AFTER = ["SubAfter", "RQ", "AC11", "7", "true", "k1"]
END = ["EndTransaction", TIME, "DefaultRegion", "pg", "orders", "AC11", "TagA", "k1", "10.0.0.1:10911", "2"]
RMQSDK = ["SubAfter", TIME, "RQ", "AC11", "10.0.0.9", "cg", "7", "false", "k1", "2"]
NEWLIFE = ["orders", "AC11", "TagA", "k1", "10.0.0.1:10911", "128", "3"]

# One sample a layout: the fields on the wire, and what of them the columns must hold.
SAMPLES = {
    "pub_12": ([*PUB, "128", "3", "0"], {"msg_type": "normal", "success": None}),
    "pub_13": ([*PUB, "128", "3", "0", "false"], {"success": False}),
    "pub_14": (
        [*PUB, "128", "3", "4", "OID", "true"],
        {
            **{"event_time": EVENT_TIME, "event_time_suspect": False, "region": "DefaultRegion"},
            **{"group_name": "pg", "topic": "orders", "msg_id": "AC11", "tags": "TagA", "keys": "k1 k2"},
            **{"store_host": "10.0.0.1:10911", "body_length": 128, "cost_ms": 3.0, "msg_type": "order"},
            **{"offset_msg_id": "OID", "success": True, "client_host": None, "request_id": None},
        },
    ),
    "pub_15": ([*PUB, "128", "3", "1", "OID", "true", "10.0.0.9@77"], {"client_host": "10.0.0.9@77"}),
    "pub_15_rmqsdk": (
        [*PUB, "10.0.0.9", "128", "3", "0", "OID", "true"],
        {"client_host": "10.0.0.9", "body_length": 128, "success": True},
    ),
    "sub_before_8": (
        SUB_BEFORE,
        {
            "event_time": EVENT_TIME,
            "group_name": "cg",
            "request_id": "RQ",
            "msg_id": "AC11",
            "retry_times": 2,
        },
    ),
    "sub_before_9": ([*SUB_BEFORE, "10.0.0.9"], {"client_host": "10.0.0.9", "keys": "k1"}),
    "sub_after_6": (SUB_AFTER, {"success": True, "cost_ms": 7.0, "context_code": None, "event_time": None}),
    "sub_after_7": ([*SUB_AFTER, "1"], {"context_code": "timeout", "event_time_suspect": None}),
    "sub_after_8_ons": ([*SUB_AFTER, "0", "3"], {"context_code": "success"}),
    "sub_after_9": ([*SUB_AFTER, "3", TIME, "cg"], {"event_time": EVENT_TIME, "group_name": "cg"}),
    "sub_after_10_rmqsdk": (
        RMQSDK,
        {"client_host": "10.0.0.9", "success": False, "context_code": "exception"},
    ),
    "end_transaction_13": (
        [*END, "TX", "ROLLBACK_MESSAGE", "true"],
        {"transaction_id": "TX", "transaction_state": "ROLLBACK_MESSAGE", "from_transaction_check": True},
    ),
    "pub_8_newlife": (
        [*NEWLIFE, "Pub"],
        {"topic": "orders", "msg_id": "AC11", "body_length": 128, "cost_ms": 3.0, "group_name": None},
    ),
    "sub_before_8_newlife": ([*NEWLIFE, "SubBefore"], {"topic": "orders", "retry_times": None}),
    "sub_after_8_newlife": ([*NEWLIFE, "SubAfter"], {"cost_ms": 3.0, "success": None}),
    "recall_7": (["Recall", TIME, "DefaultRegion", "pg", "orders", "AC11", "true"], {"success": True}),
}


@pytest.fixture(scope="module")
def decoded(spark):
    """Decode bodies, in one Spark job; returns for each body its rows as dicts."""

    def decode_bodies(*bodies: str | bytes) -> list[list[dict]]:
        rows = [
            ("c", "t", "b", 0, n, STORED, "h:1", bytearray(b if isinstance(b, bytes) else b.encode()))
            for n, b in enumerate(bodies)
        ]
        frame = spark.createDataFrame(
            rows,
            "cluster string, trace_topic string, broker string, queue_id int, queue_offset bigint, "
            "store_time timestamp, born_host string, body binary",
        )
        found: list[list[dict]] = [[] for _ in bodies]
        for row in decode(frame).orderBy("queue_offset", "record_index").collect():
            values = row.asDict()
            if values["event_time"]:
                values["event_time"] = values["event_time"].replace(tzinfo=UTC)
            found[row.queue_offset].append(values)
        return found

    return decode_bodies


def body(*records: list[str]) -> str:
    return "".join(S.join(record) + R for record in records)


def reasons(rows: list[dict]) -> list[str]:
    return [row["invalid_reason"] or row["layout"] for row in rows]


def test_every_layout_has_a_sample():
    assert set(SAMPLES) == {layout.name for layout in LAYOUTS}


def test_each_layout(decoded):
    for (name, (_, expected)), rows in zip(
        SAMPLES.items(), decoded(*[body(fields) for fields, _ in SAMPLES.values()]), strict=True
    ):
        assert [row["layout"] for row in rows] == [name], rows
        fields = SAMPLES[name][0]
        assert rows[0]["record_type"] == fields[-1 if BY_NAME[name].type_last else 0]
        assert {column: rows[0][column] for column in expected} == expected  # type: ignore[attr-defined]


def test_columns_are_the_tables(spark):
    merged_later = ["decoder_version", "change_seq"]
    frame = decode(spark.createDataFrame([], tables.RAW.schema))
    assert frame.columns == OUTPUT
    declared = {c.name: c.type for c in tables.EVENTS.columns if c.name not in merged_later}
    assert dict(frame.dtypes) == declared


def test_the_jvms_compilers_take_every_generated_method(lake):
    """HotSpot does not compile a method of more than 8,000 bytes, its C2 none of many arguments; nothing warns."""
    plan = decode(lake.table(tables.RAW.full_name))._jdf.queryExecution().executedPlan()
    debug = getattr(getattr(lake._jvm.org.apache.spark.sql.execution.debug, "package$"), "MODULE$")
    stages = debug.codegenStringSeq(plan)
    assert stages.size() == 1, "a second one would copy every row in between"
    assert stages.apply(0)._3().maxMethodCodeSize() < 8000
    arguments = re.findall(r"private \w+ \w+\((\w[^)]*)\)", stages.apply(0)._2())
    assert 1 < max(len(each.split(",")) for each in arguments) <= 50


def test_all_records_of_a_body_in_order(decoded):
    (rows,) = decoded(body(*[fields for fields, _ in SAMPLES.values()]))
    assert [row["layout"] for row in rows] == list(SAMPLES)
    assert [row["record_index"] for row in rows] == list(range(len(SAMPLES)))


def test_a_bad_record_costs_its_neighbours_nothing(decoded):
    good = SAMPLES["sub_after_9"][0]
    (rows,) = decoded(body(good, ["Pub", "torn"], good, ["Nonsense"], good))
    assert reasons(rows) == ["sub_after_9", "field_count:2", "sub_after_9", "unknown_type", "sub_after_9"]
    assert [row["raw"] for row in rows] == [None, b"Pub\x01torn", None, b"Nonsense", None]


WRONG = (
    ([*SUB_AFTER[:3], "1e3", *SUB_AFTER[4:], "0"], "bad_number:cost"),
    ([*SUB_AFTER[:3], "NaN", *SUB_AFTER[4:], "0"], "bad_number:cost"),
    ([*SUB_AFTER[:3], "7d", *SUB_AFTER[4:], "0"], "bad_number:cost"),
    ([*SUB_AFTER[:4], "yes", "k1", "0"], "bad_boolean:success"),
    ([*SUB_AFTER[:3], "7\n", *SUB_AFTER[4:], "0"], "bad_number:cost"),
    ([*SUB_AFTER, "0", TIME], "field_count:8"),  # a sub_after_9 cut short
    (["SubBefore", " 7", *SUB_BEFORE[2:]], "bad_time:time"),
    ([*SUB_BEFORE[:6], "+7", "k1"], "bad_integer:retryTimes"),
    ([*PUB[:8], "somewhere", "128", "3", "0", "OID", "true"], "bad_store_host:storeHost"),
    ([*PUB[:7], "k", "poisoned", *PUB[8:], "128", "3", "0", "OID", "true"], "bad_store_host:storeHost"),
)


def test_what_is_wrong_is_said(decoded):
    found = decoded(*[body(fields) for fields, _ in WRONG])
    assert [reasons(rows) for rows in found] == [[reason] for _, reason in WRONG]


def test_a_separator_after_the_last_field_is_not_a_field(decoded):
    # With access channel CLOUD, Java 5.3.1 and later write the sub_after_7 so.
    names = [layout.name for layout in LAYOUTS if not layout.type_last]
    found = decoded(*[body([*SAMPLES[name][0], ""]) for name in names])
    assert [reasons(rows) for rows in found] == [[name] for name in names]


def test_glued_records_are_cut(decoded):
    """Java 4.9.5-4.9.8 and 5.1.4-5.3.0 with access channel CLOUD."""
    glued = S.join([*SUB_AFTER, "0", ""])
    rows = decoded(glued + glued + S.join(SUB_BEFORE) + R + S.join(["Pub", "torn"]))[0]
    assert reasons(rows) == ["sub_after_7", "sub_after_7", "sub_before_8", "field_count:2"]
    assert [row["record_index"] for row in rows] == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [2, 3])
def test_records_joined_by_the_field_separator_come_apart(decoded, count):
    """pyrocketmq joins the records of one listener call; its client host may be empty."""
    before, without_host = [*SUB_BEFORE, "10.0.0.9"], [*SUB_BEFORE, ""]
    after = [*SUB_AFTER, "0", TIME, "cg"]
    joined = [S.join(record * count) for record in (before, without_host, after)]
    rows = decoded(R.join(joined) + R)[0]
    expected = ["sub_before_9", "sub_before_8", "sub_after_9"]
    assert reasons(rows) == [name for name in expected for _ in range(count)]
    assert [row["record_index"] for row in rows] == list(range(3 * count))


def test_only_complete_records_come_apart(decoded):
    """A key that holds a type name and separators stays one Invalid row, whatever it looks like."""
    poisoned = [
        [*SUB_BEFORE[:7], f"k{S}SubBefore{S}", "10.0.0.9"],
        [*SUB_AFTER[:5], f"k{S}SubAfter{S}Q", "0", TIME, "cg"],
    ]
    for rows in decoded(*[body(record) for record in poisoned]):
        assert [row["record_type"] for row in rows] == ["Invalid"]


def test_a_key_that_spells_a_type_cuts_nothing(decoded):
    poisoned = [*SUB_AFTER[:5], f"k{S}Pub{S}", "0"]
    rows = decoded(body(poisoned))[0]
    assert len(rows) == 1
    assert rows[0]["record_type"] == "Invalid"


def test_the_edges_of_a_body(decoded):
    record = S.join(SUB_BEFORE)
    empty, unterminated, doubled = decoded("", record, record + R + R + record + R)
    assert empty == []
    assert reasons(unterminated) == ["sub_before_8"]
    assert [row["record_index"] for row in doubled] == [0, 2]


def test_bytes_that_are_not_utf8_are_kept(decoded):
    torn = b"Pub\x01\xff\xfe\x02junk\xff"
    assert [row["raw"] for row in decoded(torn)[0]] == [b"Pub\x01\xff\xfe", b"junk\xff"]


def test_values_beyond_the_usual(decoded):
    wide = str(2**40)
    rows = decoded(
        body(
            [*PUB[:1], "99", *PUB[2:], wide, "2.5", "17", "OID", "TRUE"],
            [*SUB_AFTER[:3], wide, "true", "k1", "99"],
            ["SubBefore", "9" * 18, *SUB_BEFORE[2:]],
        )
    )[0]
    assert reasons(rows) == ["pub_14", "sub_after_7", "sub_before_8"]
    assert (rows[0]["body_length"], rows[0]["cost_ms"], rows[0]["msg_type"]) == (2**40, 2.5, "17")
    assert rows[0]["event_time_suspect"] is True
    assert (rows[1]["cost_ms"], rows[1]["context_code"]) == (2.0**40, "99")
    assert (rows[2]["event_time"], rows[2]["event_time_suspect"]) == (None, True)


def test_an_unreadable_body_is_one_invalid_row(spark):
    row = ("c", "t", "b", 0, 0, 5, STORED, None, None, None, 0, 1, 9, None, None)
    frame = spark.createDataFrame(
        [(*row, bytearray(b"x\x9c?"), "crc: stored 1, computed 2", 1, "run", STORED)], tables.RAW.schema
    )
    (found,) = decode(frame).collect()
    assert (found.record_type, found.record_index) == ("Invalid", 0)
    assert found.invalid_reason == "body_error:crc: stored 1, computed 2"
    assert found.raw == b"x\x9c?"
