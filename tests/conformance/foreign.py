"""Bodies that other clients write, for each release to decode: one of each layout, and two Java ones."""

from __future__ import annotations

from spark_jobs.trace.layouts import FIELD_SEPARATOR, FIELDS, LAYOUTS, RECORD_SEPARATOR, Layout
from tests.conformance.matrix import ID

_VALUES = {
    **{"time": "1700000000123", "region": "DefaultRegion", "group": "group", "topic": "orders"},
    **{"msgId": ID.format(1), "tags": "TagA", "keys": "k1", "storeHost": "10.0.0.1:10911"},
    **{"bodyLength": "128", "cost": "3", "msgType": "2", "offsetMsgId": "0A00", "success": "false"},
    **{"clientHost": "10.0.0.9@77", "requestId": ID.format(2), "retryTimes": "2", "contextCode": "3"},
    **{"transactionId": ID.format(1), "transactionState": "UNKNOW", "fromTransactionCheck": "true"},
    **{"exactlyOnceStatus": "3"},
}
assert set(_VALUES) == set(FIELDS)


def _record(layout: Layout) -> str:
    return FIELD_SEPARATOR.join(layout.wire(_VALUES))


_BY_LAYOUT = {layout.name: _record(layout) + RECORD_SEPARATOR for layout in LAYOUTS}
_CLOUD = _BY_LAYOUT["sub_after_7"].removesuffix(RECORD_SEPARATOR) + FIELD_SEPARATOR
BODIES = {
    **{f"a {name}": body for name, body in _BY_LAYOUT.items()},
    "CLOUD, ended": _CLOUD + RECORD_SEPARATOR,
    "CLOUD, glued": _CLOUD + _BY_LAYOUT["pub_14"],
}
