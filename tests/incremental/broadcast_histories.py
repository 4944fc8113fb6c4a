"""Histories of a group whose mode the brokers say, or do not, before and after its messages are consumed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tests.incremental.delivery_histories import ASKED, ASKED_AGAIN, LATE
from tests.incremental.histories import WATERMARK, Answers, History
from tests.incremental.offset_histories import answers, begin, pub, record

EARLY = WATERMARK - timedelta(days=2)
# Three messages before the brokers are asked, one after the first collection, one, in the last batch, after the second.
MESSAGES = {
    "early0": EARLY,
    "early1": EARLY,
    "early2": EARLY,
    "between": ASKED + timedelta(minutes=30),
    "late": LATE,
}
CLIENTS = ("10.0.0.1:1", "10.0.0.2:1")
SEVERAL, ONE = (2, 2, 2, 2, 2), (1, 1, 1, 1, 1)


@dataclass(frozen=True)
class Mode:
    """Whether messages are delivered by broadcasting, by the definitions, at the first watermark and at the last.

    Attributes:
        broadcasting: whether the brokers say at both collections that the group broadcasts; None: it is offline.
        clients: of each message.
        before: of the messages early0 and between; the others are not compared.
        after: of the messages early0, between and late.
    """

    broadcasting: tuple[bool | None, bool | None]
    clients: tuple[int, int, int, int, int]
    before: dict[str, bool]
    after: dict[str, bool]


def _mode(
    broadcasting: tuple[bool | None, bool | None],
    clients: tuple[int, int, int, int, int],
    before: tuple[bool, bool],
    after: tuple[bool, bool, bool],
) -> Mode:
    names = ("early0", "between", "late")
    return Mode(
        *(broadcasting, clients, dict(zip(names[:2], before, strict=True))),
        dict(zip(names, after, strict=True)),
    )


MODES = {
    "inferred": _mode((None, None), SEVERAL, (True, True), (True, True, True)),
    "weak_evidence": _mode((None, None), (2, 2, 1, 1, 2), (False, False), (False, False, False)),
    "evidence_that_comes_late": _mode((None, None), (2, 2, 1, 2, 2), (True, True), (True, True, True)),
    "evidence_that_goes": _mode((None, None), (2, 2, 2, 1, 1), (True, True), (False, False, False)),
    "said_clustering": _mode((False, False), SEVERAL, (True, False), (True, False, False)),
    "said_broadcasting": _mode((True, True), ONE, (False, True), (False, True, True)),
    "broadcasting_since": _mode((False, True), ONE, (False, False), (False, False, True)),
    "clustering_since": _mode((True, False), SEVERAL, (True, True), (True, True, False)),
    "said_late": _mode((None, True), ONE, (False, False), (False, False, True)),
    "said_late_to_be_clustering": _mode((None, False), SEVERAL, (True, True), (True, True, False)),
    "offline_since": _mode((True, None), ONE, (False, True), (False, True, True)),
}


def broadcast_histories(batches: int) -> dict[str, History]:
    """By name."""
    return {f"broadcast_{name}": _history(case, batches) for name, case in MODES.items()}


def _history(case: Mode, batches: int) -> History:
    history = History()
    for (msg_id, at), clients in zip(MESSAGES.items(), case.clients, strict=True):
        batch = batches if at == LATE else 1
        history.records.append(pub(len(history.records), msg_id, at) | {"change_seq": batch})
        for client in CLIENTS[:clients]:
            number = len(history.records)
            history.records.append(begin(number, msg_id, at, batch) | {"born_host": client})
            end = {"msg_id": msg_id, "request_id": f"q{number}", "group_name": "stock", "success": True}
            end |= {"context_code": "success", "layout": "sub_after_9", "born_host": client}
            history.records.append(record(number + 1, "SubAfter", at + timedelta(seconds=1), batch, **end))
    first, second = case.broadcasting
    for number in range(batches - 1):
        history.answers.append(_answers(ASKED + timedelta(minutes=number), first))
    history.answers.append(_answers(ASKED_AGAIN, second))
    history.answers.append(_answers(WATERMARK - timedelta(minutes=4), not second))
    return history


def _answers(at: datetime, is_broadcasting: bool | None) -> Answers:
    found = answers(at, frozenset({"stock"}), 10, 10, is_broadcasting is not None, None)
    broadcasting = frozenset({"stock"} if is_broadcasting else ())
    return replace(found, collection=replace(found.collection, broadcasting=broadcasting))
