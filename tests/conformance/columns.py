"""The properties of TraceContext and TraceBean, and the columns that hold the same."""

from __future__ import annotations

from spark_jobs.trace.layouts import BY_NAME, COLUMNS, KINDS, MSG_TYPES, Kind
from tests.conformance.matrix import Context, Values
from tests.conformance.releases import WRITES, message_types

COLUMN_OF = {
    "timeStamp": "event_time",
    "regionId": "region",
    "groupName": "group_name",
    "topic": "topic",
    "msgId": "msg_id",
    "tags": "tags",
    "keys": "keys",
    "storeHost": "store_host",
    "bodyLength": "body_length",
    "costTime": "cost_ms",
    "msgType": "msg_type",
    "offsetMsgId": "offset_msg_id",
    "success": "success",
    "clientHost": "client_host",
    "requestId": "request_id",
    "retryTimes": "retry_times",
    "contextCode": "context_code",
    "transactionId": "transaction_id",
    "transactionState": "transaction_state",
    "fromTransactionCheck": "from_transaction_check",
}
# Java's names of MessageType and ConsumeReturnType, and ours.
MESSAGE_TYPES = {
    "Normal_Msg": "normal",
    "Trans_Msg_Half": "half",
    "Trans_msg_Commit": "commit",
    "Delay_Msg": "delay",
    "Order_Msg": "order",
}
RETURN_TYPES = {
    "SUCCESS": "success",
    "TIME_OUT": "timeout",
    "EXCEPTION": "exception",
    "RETURNNULL": "returned_null",
    "FAILED": "failed",
}
_ONE_RECORD = ("Pub", "EndTransaction", "Recall")  # whatever the number of beans: of the first

Row = dict[str, object]


def value(column: str, text: str | None) -> object:
    """A property as our column would hold it: numbers as such, a time in ms, codes and types by our names."""
    if text is None:
        return None
    if column == "msg_type":
        return MESSAGE_TYPES[text]
    if column == "context_code":
        return dict(enumerate(RETURN_TYPES.values())).get(int(text), text)
    match KINDS[column]:
        case Kind.INTEGER | Kind.TIME | Kind.NUMBER:
            return int(text)
        case Kind.BOOLEAN:
            return text == "true"
        case _:
            return text


def expected(release: str, context: Context) -> list[Row]:
    """Our rows of what the release writes for a context: what went in, and NULL for what the layout has not."""
    layout = BY_NAME[WRITES[release][context.written_as]]
    beans = context.beans[:1] if context.record_type in _ONE_RECORD else context.beans
    rows = []
    for bean in beans:
        given = context.values | bean
        row: Row = dict.fromkeys(COLUMNS)
        for name, column in COLUMN_OF.items():
            if layout.position(column) is not None:
                text = given[name]
                row[column] = value(column, "null" if text is None else text)  # Java writes null so
        if row["msg_type"] is not None:
            # The wire has a number; where the release counts otherwise, nothing on the wire says so.
            row["msg_type"] = MSG_TYPES[message_types(release).index(given["msgType"])]
        rows.append(row | {"record_type": context.record_type, "layout": layout.name, "invalid_reason": None})
    return rows


def theirs(record: Values) -> Row:
    """A record that a release decoded, by our columns."""
    return {column: value(column, record.get(name)) for name, column in COLUMN_OF.items()}
