"""Bodies as each client but Java's writes them, and every column of every record.

Java's own bodies come from the real client elsewhere; these are from the sources of the others. `|` stands for the separator
of fields and `¶` for the end of a record. A column that a row does not name is NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_jobs.trace.decode import OUTPUT
from spark_jobs.trace.layouts import BY_NAME
from tests.decode.compare import CARRIED, STORED_MS, by_body
from tests.decode.conftest import Decoded

T = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=STORED_MS)  # 1795000000000


@dataclass(frozen=True)
class Client:
    name: str
    body: str
    rows: tuple[dict[str, Any], ...]


def pub(layout: str, **values: Any) -> dict[str, Any]:
    """What the Pubs below have in common."""
    usual = {
        **{"record_type": "Pub", "layout": layout, "event_time": T, "region": "DefaultRegion"},
        **{"group_name": "shop", "topic": "orders", "msg_id": "AC11", "tags": "new", "keys": "k1"},
        **{"store_host": "10.0.0.1:10911", "body_length": 128, "cost_ms": 3.0, "msg_type": "normal"},
    }
    return usual | values


def before(layout: str, **values: Any) -> dict[str, Any]:
    usual = {
        **{"record_type": "SubBefore", "layout": layout, "event_time": T, "region": "DefaultRegion"},
        **{"group_name": "mail", "request_id": "RQ", "msg_id": "AC11", "retry_times": 0, "keys": "k1"},
    }
    return usual | values


def after(layout: str, **values: Any) -> dict[str, Any]:
    usual = {
        **{"record_type": "SubAfter", "layout": layout, "request_id": "RQ", "msg_id": "AC11"},
        **{"cost_ms": 7.0, "success": True, "keys": "k1"},
    }
    return usual | values


def end(**values: Any) -> dict[str, Any]:
    usual = {
        **{"record_type": "EndTransaction", "layout": "end_transaction_13", "event_time": T},
        **{
            "region": "DefaultRegion",
            "group_name": "shop",
            "topic": "orders",
            "msg_id": "AC11",
            "tags": "new",
        },
        **{"keys": "k1", "store_host": "10.0.0.1:10911", "msg_type": "commit", "transaction_id": "AC11"},
        **{"transaction_state": "COMMIT_MESSAGE", "from_transaction_check": False},
    }
    return usual | values


def newlife(layout: str, record_type: str, **values: Any) -> dict[str, Any]:
    usual = {
        **{"record_type": record_type, "layout": layout, "topic": "orders", "msg_id": "AC11", "tags": "new"},
        **{"keys": "k1", "store_host": "10.0.0.1:10911", "body_length": 128, "cost_ms": 3.0},
    }
    return usual | values


CLIENTS = (
    Client(
        "Go up to 2.1.0: a namespace is cut off, the two % of a retry topic are not; no key is empty or null",
        "Pub|1795000000000|DefaultRegion|shop|orders|AC11|||10.0.0.1:10911|128|3|0|OID|true¶"
        "Pub|1795000000000|DefaultRegion|shop|%RETRY%mail|AC11|new|k1|10.0.0.1:10911|128|3|3|OID|false¶"
        "SubBefore|1795000000000|DefaultRegion|mail|RQ|AC11|0|null¶"
        "SubBefore|1795000000000|DefaultRegion|%RETRY%mail|RQ|AC12|16|k1 k2¶"
        "SubAfter|RQ|AC11|7|true|null|0¶"
        "SubAfter|RQ|AC12|7|false|k1 k2|2¶",
        (
            pub("pub_14", tags="", keys="", offset_msg_id="OID", success=True),
            pub("pub_14", topic="%RETRY%mail", msg_type="delay", offset_msg_id="OID", success=False),
            before("sub_before_8", keys="null"),
            before("sub_before_8", group_name="%RETRY%mail", msg_id="AC12", retry_times=16, keys="k1 k2"),
            after("sub_after_7", keys="null", context_code="success"),
            after("sub_after_7", msg_id="AC12", success=False, keys="k1 k2", context_code="exception"),
        ),
    ),
    Client(
        "Go from 2.1.1: the client's address in Pub and SubBefore, time and group in SubAfter; a batch has no ids of its own",
        "Pub|1795000000000||shop|orders|AC11|||10.0.0.1:10911|128|3|0|OID|true|10.0.0.9¶"
        "Pub|1795000000000|DefaultRegion|shop|orders||||10.0.0.1:10911|128|3|0|OID1,OID2|true|10.0.0.9¶"
        "SubBefore|1795000000000|DefaultRegion|mail|RQ|AC11|1|null|10.0.0.9¶"
        "SubBefore|1795000000000|DefaultRegion|mail|RQ|AC12|1|k1|2001:db8::9¶"
        "SubAfter|RQ|AC11|7|true|null|0|1795000000000|mail¶"
        "SubAfter|RQ|AC12|7|true|k1|0|1795000000000|%RETRY%mail¶",
        (
            pub(
                "pub_15",
                region="",
                tags="",
                keys="",
                offset_msg_id="OID",
                success=True,
                client_host="10.0.0.9",
            ),
            pub(
                "pub_15",
                **{"msg_id": "", "tags": "", "keys": "", "offset_msg_id": "OID1,OID2", "success": True},
                client_host="10.0.0.9",
            ),
            before("sub_before_9", retry_times=1, keys="null", client_host="10.0.0.9"),
            before("sub_before_9", msg_id="AC12", retry_times=1, client_host="2001:db8::9"),
            after("sub_after_9", keys="null", context_code="success", event_time=T, group_name="mail"),
            after(
                "sub_after_9",
                **{"msg_id": "AC12", "context_code": "success", "event_time": T},
                group_name="%RETRY%mail",
            ),
        ),
    ),
    Client(
        "C++ and Python (librocketmq): another region, dKey, no code; a SubAfter for the first of a batch only",
        "Pub|1795000000000|DEFAULT_REGION|shop|orders|AC11|new|k1|10.0.0.1:10911|128|3|0|OID|true¶"
        "SubBefore|1795000000000|DEFAULT_REGION|mail|RQ|AC11|0|dKey¶"
        "SubBefore|1795000000000||mail|RQ|AC12|0|dKey¶"
        "SubAfter|RQ|AC11|7|true|dKey¶"
        "SubAfter|RQ|AC13|0|false|¶",
        (
            pub("pub_14", region="DEFAULT_REGION", offset_msg_id="OID", success=True),
            before("sub_before_8", region="DEFAULT_REGION", keys="dKey"),
            before("sub_before_8", region="", msg_id="AC12", keys="dKey"),
            after("sub_after_6", keys="dKey"),
            after("sub_after_6", msg_id="AC13", cost_ms=0.0, success=False, keys=""),
        ),
    ),
    Client(
        "rocketmq-ons SDK: a small number after the code, no time",
        "Pub|1795000000000|cn-hangzhou|shop|orders|AC11|new|k1|10.0.0.1:10911|128|3|1|OID|true¶"
        "SubBefore|1795000000000|cn-hangzhou|mail|RQ|AC11|0|k1¶"
        "SubAfter|RQ|AC11|7|true|k1|0|0¶"
        "SubAfter|RQ|AC11|7|false||4|2¶",
        (
            pub("pub_14", region="cn-hangzhou", msg_type="half", offset_msg_id="OID", success=True),
            before("sub_before_8", region="cn-hangzhou"),
            after("sub_after_8_ons", context_code="success"),
            after("sub_after_8_ons", success=False, keys="", context_code="failed"),
        ),
    ),
    Client(
        "older ONS, maihaoche starter: no offsetMsgId, and still earlier no success",
        "Pub|1795000000000|null|shop|orders|AC11|null|null|10.0.0.1:10911|128|3|0|true¶"
        "Pub|1795000000000|null|shop|orders|AC11|new|k1|null|128|3|2|false¶"
        "Pub|1795000000000|null|shop|orders|AC11|new|k1||128|3|4¶"
        "SubBefore|1795000000000|null|mail|RQ|AC11|0|¶"
        "SubAfter|RQ|AC11|7|true|¶",
        (
            pub("pub_13", region="null", tags="null", keys="null", success=True),
            pub("pub_13", region="null", store_host="null", msg_type="commit", success=False),
            pub("pub_12", region="null", store_host="", msg_type="order"),
            before("sub_before_8", region="null", keys=""),
            after("sub_after_6", keys=""),
        ),
    ),
    Client(
        "rmqsdk (rocketmq-enhance-client): its own order of fields in Pub and SubAfter",
        "Pub|1795000000000|DefaultRegion|shop|orders|AC11|new|k1|10.0.0.1:10911|10.0.0.9|128|3|0|OID|true¶"
        "SubBefore|1795000000000|DefaultRegion|mail|RQ|AC11|0|k1¶"
        "SubAfter|1795000000000|RQ|AC11|10.0.0.9|mail|7|false|k1|4¶",
        (
            pub("pub_15_rmqsdk", client_host="10.0.0.9", offset_msg_id="OID", success=True),
            before("sub_before_8"),
            after(
                "sub_after_10_rmqsdk",
                **{"event_time": T, "client_host": "10.0.0.9", "group_name": "mail"},
                **{"success": False, "context_code": "failed"},
            ),
        ),
    ),
    Client(
        "Rust: all five types; an address only where it finds one, a transaction may have no id",
        "Pub|1795000000000|DefaultRegion|shop|orders|AC11|new|k1|broker-a:10911|128|3|0|OID|true|10.0.0.9¶"
        "Pub|1795000000000|DefaultRegion|shop|orders|AC11|new|k1|10.0.0.1:10911|128|3|0|OID|true|¶"
        "SubBefore|1795000000000|DefaultRegion|mail|RQ|AC11|0|k1¶"
        "SubAfter|RQ|AC11|7|true|k1|0|1795000000000|mail¶"
        "EndTransaction|1795000000000|DefaultRegion|shop|orders|AC11|new|k1|10.0.0.1:10911|2||UNKNOW|true¶"
        "Recall|1795000000000|DefaultRegion|shop|orders|AC11|true¶",
        (
            pub(
                "pub_15",
                store_host="broker-a:10911",
                offset_msg_id="OID",
                success=True,
                client_host="10.0.0.9",
            ),
            pub("pub_14", offset_msg_id="OID", success=True),
            before("sub_before_8"),
            after("sub_after_9", context_code="success", event_time=T, group_name="mail"),
            end(transaction_id="", transaction_state="UNKNOW", from_transaction_check=True),
            {
                **{"record_type": "Recall", "layout": "recall_7", "event_time": T, "region": "DefaultRegion"},
                **{"group_name": "shop", "topic": "orders", "msg_id": "AC11", "success": True},
            },
        ),
    ),
    Client(
        "Rust with access channel CLOUD: a separator after the code, and no more",
        "SubAfter|RQ|AC11|7|true|k1|0|¶SubAfter|RQ|AC12|7|false||2|¶",
        (
            after("sub_after_7", context_code="success"),
            after("sub_after_7", msg_id="AC12", success=False, keys="", context_code="exception"),
        ),
    ),
    Client(
        "Lua: fractions of milliseconds; code 1, which it writes for every failure, keeps its name",
        "Pub|1795000000000|DefaultRegion|shop|orders|AC11|new|k1|10.0.0.1:10911|128|2.9997558594|0|OID|true¶"
        "SubBefore|1795000000000|DefaultRegion|mail|RQ|AC11|0|k1¶"
        "SubAfter|RQ|AC11|0.33333333333333|false|k1|1|1795000000000|mail¶"
        "EndTransaction|1795000000000|DefaultRegion|shop|orders|AC11|new|k1|10.0.0.1:10911|2|AC11|COMMIT_MESSAGE|false¶",
        (
            pub("pub_14", cost_ms=2.9997558594, offset_msg_id="OID", success=True),
            before("sub_before_8"),
            after(
                "sub_after_9",
                **{"cost_ms": 0.33333333333333, "success": False, "context_code": "timeout"},
                **{"event_time": T, "group_name": "mail"},
            ),
            end(),
        ),
    ),
    Client(
        "pyrocketmq: no region, no address in a Pub; what one listener call got is joined by separators of fields",
        "Pub|1795000000000||shop|orders|AC11|new||10.0.0.1:10911|128|3|2|AC11|true|¶"
        "SubBefore|1795000000000||mail|RQ|AC11|0|k1|10.0.0.9|SubBefore|1795000000000||mail|RQ|AC12|0||10.0.0.9|"
        "SubBefore|1795000000000||mail|RQ|AC13|3|k1|10.0.0.9¶"
        "SubAfter|RQ|AC11|7|true|k1|0|1795000000000|ns%mail|SubAfter|RQ|AC12|7|true||0|1795000000000|ns%mail|"
        "SubAfter|RQ|AC13|7|true|k1|0|1795000000000|ns%mail¶"
        "SubBefore|1795000000000||mail|RQ2|AC14|0|||SubBefore|1795000000000||mail|RQ2|AC15|0||¶"
        "Pub|1795000000000||shop|orders|AC16|||10.0.0.1:10911|128|3|1||false|¶",
        (
            pub("pub_14", region="", keys="", msg_type="commit", offset_msg_id="AC11", success=True),
            *(
                before("sub_before_9", region="", client_host="10.0.0.9", **each)
                for each in (
                    {"msg_id": "AC11"},
                    {"msg_id": "AC12", "keys": ""},
                    {"msg_id": "AC13", "retry_times": 3},
                )
            ),
            *(
                after("sub_after_9", context_code="success", event_time=T, group_name="ns%mail", **each)
                for each in ({"msg_id": "AC11"}, {"msg_id": "AC12", "keys": ""}, {"msg_id": "AC13"})
            ),
            before("sub_before_8", region="", request_id="RQ2", msg_id="AC14", keys=""),
            before("sub_before_8", region="", request_id="RQ2", msg_id="AC15", keys=""),
            pub(
                "pub_14",
                **{"region": "", "msg_id": "AC16", "tags": "", "keys": "", "msg_type": "half"},
                **{"offset_msg_id": "", "success": False},
            ),
        ),
    ),
    Client(
        "NewLife: the type last, no time and no group, and no end after the last record",
        "orders|AC11|new|k1|10.0.0.1:10911|128|3|Pub",
        (newlife("pub_8_newlife", "Pub"),),
    ),
    Client(
        "NewLife: what a listener call got, with no tags and keys, and a cost that was not measured",
        "orders|AC11|||10.0.0.1:10911|128|0|SubBefore¶orders|AC12|||10.0.0.1:10911|128|0|SubBefore",
        (
            newlife("sub_before_8_newlife", "SubBefore", tags="", keys="", cost_ms=0.0),
            newlife("sub_before_8_newlife", "SubBefore", msg_id="AC12", tags="", keys="", cost_ms=0.0),
        ),
    ),
    Client(
        "NewLife: after the listener",
        "orders|AC11|new|k1||128|-3|SubAfter",
        (newlife("sub_after_8_newlife", "SubAfter", store_host="", cost_ms=-3.0),),
    ),
    Client(
        "pyrocketmq: the producer's address, and its port",
        "SubBefore|1795000000000||mail|RQ|AC11|0|k1|10.0.0.8:51234¶",
        (before("sub_before_9", region="", client_host="10.0.0.8:51234"),),
    ),
)


@pytest.fixture(scope="module")
def rows(decoded: Decoded) -> dict[str, list[dict[str, Any]]]:
    """The rows of every client's body, from one job."""
    wire = [each.body.replace("|", "\x01").replace("¶", "\x02").encode() for each in CLIENTS]
    found = by_body(decoded(wire))
    return {each.name: found[at] for at, each in enumerate(CLIENTS)}


@pytest.mark.parametrize(
    "client",
    CLIENTS,
    ids=lambda client: client.name.split(":")[0],
)
def test_a_client(client: Client, rows):
    for index, (row, values) in enumerate(zip(rows[client.name], client.rows, strict=True)):
        expected = dict.fromkeys(OUTPUT) | CARRIED | {"record_index": index} | values
        if expected["event_time"]:
            expected["event_time_suspect"] = False
        assert row | {"queue_offset": None} == expected


def test_every_layout_is_some_clients(rows):
    assert {row["layout"] for each in rows.values() for row in each if row["layout"]} == set(BY_NAME)
