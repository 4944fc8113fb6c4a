"""What the encoders are asked to write: trace contexts, alone and several in one body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from tests.conformance.releases import WRITES, message_types

Values = dict[str, str | None]  # by the names of the Java properties; None is null


@dataclass(frozen=True)
class Context:
    """A TraceContext and its TraceBeans."""

    record_type: str
    values: Values
    beans: list[Values] = field(default_factory=list)

    @property
    def written_as(self) -> str:
        """Its key in `releases.WRITES`."""
        return "SubAfter CLOUD" if self.values.get("accessChannel") == "CLOUD" else self.record_type


ID = "7F0000010A3218B4AAC2{:012X}"
CONTEXT = {"timeStamp": "1700000000123", "regionId": "DefaultRegion", "groupName": "group"}
BEAN = {"msgId": ID.format(1), "keys": "k1"}
SENT = {
    **{**BEAN, "topic": "orders", "tags": "TagA", "storeHost": "10.0.0.1:10911", "msgType": "Normal_Msg"},
    **{"bodyLength": "128", "offsetMsgId": "0A00000100002A9F0000000000000001", "clientHost": "10.0.0.9@77"},
}
RECEIVED = {**BEAN, "retryTimes": "0", "clientHost": "10.0.0.9@77"}

TYPES = {
    "Pub": ({**CONTEXT, "costTime": "3", "success": "true"}, SENT),
    "SubBefore": ({**CONTEXT, "requestId": ID.format(2)}, RECEIVED),
    "SubAfter": (
        {**CONTEXT, "requestId": ID.format(2), "costTime": "7", "success": "true", "contextCode": "0"},
        BEAN,
    ),
    "EndTransaction": (
        CONTEXT,
        {
            **{**SENT, "msgType": "Trans_msg_Commit", "transactionId": ID.format(1)},
            **{"transactionState": "COMMIT_MESSAGE", "fromTransactionCheck": "false"},
        },
    ),
    "Recall": ({**CONTEXT, "success": "true"}, {"topic": "orders", "msgId": ID.format(1)}),
}
NUMBERS = ("0", "1", str(2**31 - 1))
IDS = (ID.format(1), "2" * 56, "010A" + "B" * 30, "my own id", f"{ID.format(1)},{ID.format(3)}")
TEXTS = (
    None,
    "",
    "k1",
    "k1 k2",
    " ",
    "null",
    "Pub",
    "SubAfter",
    "\u0437\u0430\u043a\u0430\u0437 \u8ba2\u5355 \U0001f511",
)
HOSTS = ("10.0.0.1:10911", "broker.example:10911", "[fe80::1]:10911", "", None)
CLIENTS = ("10.0.0.9@77", "10.0.0.9", "10.0.0.9@DEFAULT@unit", "fe80::1%eth0@77")
TIMES = ("0", "1", "999999999999", "1700000000123", "9999999999999")
YES_OR_NO = ("true", "false")
STATES = ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW")

# Of each record type the products that are tried, by the properties that vary.
VARIED = {
    "Pub": (
        {"keys": TEXTS, "tags": TEXTS, "success": YES_OR_NO},
        {"bodyLength": NUMBERS, "costTime": (*NUMBERS, "-5"), "timeStamp": TIMES},
        {"msgId": IDS, "offsetMsgId": (*IDS, None), "storeHost": HOSTS},
        {"regionId": TEXTS, "groupName": ("group", "ns%group"), "topic": ("orders", "ns%orders", "Pub")},
        {"clientHost": CLIENTS},
    ),
    "SubBefore": (
        {"keys": TEXTS, "retryTimes": NUMBERS, "clientHost": CLIENTS},
        {"regionId": TEXTS, "groupName": ("group", "ns%group"), "timeStamp": TIMES},
        {"msgId": IDS, "requestId": (ID.format(2), None)},
    ),
    "SubAfter": (
        {"keys": TEXTS, "contextCode": ("0", "1", "2", "3", "4", "5"), "success": YES_OR_NO},
        {"costTime": (*NUMBERS, "-5"), "timeStamp": TIMES, "groupName": ("group", "ns%group")},
        {"groupName": ("", None)},
        {"msgId": IDS, "requestId": (ID.format(2), None)},
    ),
    "EndTransaction": (
        {"keys": TEXTS, "tags": TEXTS},
        {"transactionState": STATES, "fromTransactionCheck": YES_OR_NO, "timeStamp": TIMES},
        {"transactionId": (*IDS, "", None), "storeHost": HOSTS},
    ),
    "Recall": ({"success": YES_OR_NO, "msgId": IDS, "regionId": TEXTS}, {"timeStamp": TIMES}),
}


def context(record_type: str, beans: int = 1, **changed: str | None) -> Context:
    """A context with some properties changed, in itself or in each of its beans; the beans have ids of their own."""
    values, bean = TYPES[record_type]
    of_context = {name: value for name, value in changed.items() if name in values or name == "accessChannel"}
    of_bean = {name: value for name, value in changed.items() if name not in of_context}
    ids = [{"msgId": ID.format(n)} for n in range(1, beans + 1)] if beans > 1 else [{}]
    return Context(record_type, values | of_context, [bean | each | of_bean for each in ids])


def bodies(release: str) -> dict[str, list[Context]]:
    """The bodies that a release is asked for, by their names."""
    kinds = dict(_kinds(release))
    return {
        **dict(_alone(release, kinds)),
        **{f"{name} of {n}": [context(**kind, beans=n)] for name, kind in kinds.items() for n in (2, 32)},
        **dict(_together(kinds)),
    }


def _kinds(release: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The record types that the release writes, SubAfter once for each access channel that it asks for."""
    for written_as in WRITES[release]:
        record_type = written_as.removesuffix(" CLOUD")
        kind = {"record_type": record_type}
        if record_type == "SubAfter" and "SubAfter CLOUD" in WRITES[release]:
            kind["accessChannel"] = "CLOUD" if written_as == "SubAfter CLOUD" else "LOCAL"
        yield written_as, kind


def _alone(release: str, kinds: dict[str, dict[str, str]]) -> Iterator[tuple[str, list[Context]]]:
    for name, kind in kinds.items():
        varied = VARIED[kind["record_type"]]
        if "msgType" in TYPES[kind["record_type"]][1]:
            varied = (*varied, {"msgType": message_types(release)})
        for choices in varied:
            for chosen in product(*choices.values()):
                changed = dict(zip(choices, chosen, strict=True))
                fields = " ".join(f"{name}={value!r}" for name, value in changed.items())
                yield f"{name} {fields}", [context(**kind, **changed)]


def _together(kinds: dict[str, dict[str, str]]) -> Iterator[tuple[str, list[Context]]]:
    """Each kind after each, with each keys; and all of them in turn, to a hundred."""
    for (first, one), (second, other), keys in product(kinds.items(), kinds.items(), TEXTS):
        pair = [context(**one, **_keys(one, keys)), context(**other, **_keys(other, keys))]
        yield f"{first}, {second} keys={keys!r}", pair
    for n in range(len(kinds)):
        ordered = [*kinds.values()][n:] + [*kinds.values()][:n]
        yield f"a hundred from {list(kinds)[n]}", [context(**ordered[i % len(kinds)]) for i in range(100)]


def _keys(kind: dict[str, str], keys: str | None) -> dict[str, str | None]:
    return {} if kind["record_type"] == "Recall" else {"keys": keys}
