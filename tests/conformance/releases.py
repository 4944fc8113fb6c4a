"""What each release of the Java client writes; every entry was seen in what its own encoder wrote."""

from __future__ import annotations

_PUB_AND_SUB_BEFORE = {"Pub": "pub_14", "SubBefore": "sub_before_8"}
_UNTIL_4_7 = {**_PUB_AND_SUB_BEFORE, "SubAfter": "sub_after_7"}
_WITH_CLIENT_HOST = {"Pub": "pub_15", "SubBefore": "sub_before_9", "SubAfter": "sub_after_9"}
_4_9_1 = {**_UNTIL_4_7, "EndTransaction": "end_transaction_13"}
_FROM_4_9 = {**_4_9_1, "SubAfter": "sub_after_9"}
_WITH_CLOUD = {**_FROM_4_9, "SubAfter CLOUD": "sub_after_7"}
_WITH_RECALL = {**_WITH_CLOUD, "Recall": "recall_7"}

# The layout of each record type; "SubAfter CLOUD" where the release asks for the access channel.
WRITES = {
    "4.4.0": _UNTIL_4_7,
    "4.5.2": _UNTIL_4_7,
    "4.7.1": _UNTIL_4_7,
    "4.8.0": _WITH_CLIENT_HOST,
    "4.9.0": _FROM_4_9,
    "4.9.1": _4_9_1,
    "4.9.2": _FROM_4_9,
    "4.9.4": _FROM_4_9,
    "4.9.5": _WITH_CLOUD,
    "4.9.8": _WITH_CLOUD,
    "5.0.0": _FROM_4_9,
    "5.1.0": _FROM_4_9,
    "5.1.1": _FROM_4_9,
    "5.1.3": _FROM_4_9,
    "5.1.4": _WITH_CLOUD,
    "5.3.0": _WITH_CLOUD,
    "5.3.1": _WITH_CLOUD,
    "5.3.2": _WITH_RECALL,
    "5.5.0": _WITH_RECALL,
}
RELEASES = tuple(WRITES)


def between(first: str, last: str) -> tuple[str, ...]:
    """The tested releases from one to another, both included."""
    return RELEASES[RELEASES.index(first) : RELEASES.index(last) + 1]


# A CLOUD SubAfter ends in a field's separator: without a record's separator, or with one after it.
GLUES = (*between("4.9.5", "4.9.8"), *between("5.1.4", "5.3.0"))
ENDS_IN_AN_EMPTY_FIELD = between("5.3.1", "5.5.0")

# Each word of the keys is a key of the trace message; before, all of them together are one.
SPLITS_KEYS = between("4.9.4", "5.5.0")

# MessageType, in the order of the wire's numbers.
_NUMBERED = ("Normal_Msg", "Trans_Msg_Half", "Trans_msg_Commit", "Delay_Msg", "Order_Msg")
_ORDER_SECOND = ("Normal_Msg", "Order_Msg", "Trans_Msg_Half", "Trans_msg_Commit", "Delay_Msg")
ORDER_IS_SECOND = between("5.0.0", "5.1.0")


def message_types(release: str) -> tuple[str, ...]:
    """The release's message types, by their numbers on the wire."""
    if release in ORDER_IS_SECOND:
        return _ORDER_SECOND
    return _NUMBERED if release in between("5.1.1", "5.5.0") else _NUMBERED[:4]
