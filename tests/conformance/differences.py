"""Where our decoder and a release's own differ on well-formed bodies, each difference with its reason.

A difference that no row explains fails the tests, and so does a row that does not occur in each of its releases,
record types and columns. `docs/conformance.md` shows this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from spark_jobs.trace.layouts import RECORD_TYPES
from tests.conformance.columns import MESSAGE_TYPES, Row, theirs
from tests.conformance.java import Answer
from tests.conformance.matrix import Values
from tests.conformance.releases import ORDER_IS_SECOND, RELEASES, WRITES, between

BODY = "the whole body"  # in place of a column


@dataclass(frozen=True)
class Difference:
    """One value, or the whole body, of which the two decoders think differently."""

    release: str
    column: str
    theirs: object  # of a whole body: the exception that it threw, or the number of records
    ours: object
    new: object  # what a new TraceContext or TraceBean has there
    rows: tuple[Row, ...]  # ours, of the record, or of the whole body

    @property
    def record_types(self) -> set[str]:
        return {str(row["record_type"]) for row in self.rows}

    @property
    def layouts(self) -> list[object]:
        return [row["layout"] for row in self.rows]


@dataclass(frozen=True)
class Known:
    """Differences that have one reason."""

    name: str
    releases: tuple[str, ...]
    record_types: tuple[str, ...]
    columns: tuple[str, ...]
    theirs: str
    ours: str
    why: str
    found: Callable[[Difference], bool]

    def explains(self, difference: Difference) -> bool:
        return (
            difference.release in self.releases
            and difference.column in self.columns
            and bool(difference.record_types & set(self.record_types))
            and self.found(difference)
        )


def differences(release: str, new: Values, answer: Answer, rows: list[Row]) -> Iterator[Difference]:
    """All differences in one body; of a body with more or fewer records in theirs than in ours it is that alone."""
    if answer.threw or len(answer.records) != len(rows):
        yield Difference(release, BODY, answer.threw or len(answer.records), len(rows), None, tuple(rows))
        return
    blank = theirs(new)
    for record, row in zip(answer.records, rows, strict=True):
        for column, value in theirs(record).items():
            if value != row[column]:
                yield Difference(release, column, value, row[column], blank[column], (row,))


def _invented(value: object) -> Callable[[Difference], bool]:
    return lambda d: d.ours is None and d.theirs == value


def _own_address(d: Difference) -> bool:
    return d.ours is None and d.theirs == d.new


def _new_request_id(d: Difference) -> bool:
    # MessageClientIDSetter: address, process and class loader, the same all the time, then a count.
    return d.ours is None and str(d.theirs)[:20] == str(d.new)[:20]


def _is_now(d: Difference) -> bool:
    return 0 <= cast(int, d.theirs) - cast(int, d.new) < 600_000


def _threw(error: str, *layouts: str) -> Callable[[Difference], bool]:
    return lambda d: d.theirs == error and any(layout in d.layouts for layout in layouts)


def _ends_empty(d: Difference) -> bool:
    empty = any(row["layout"] == "sub_before_8" and row["keys"] == "" for row in d.rows)
    return d.theirs == "ArrayIndexOutOfBoundsException" and empty


def _glued(d: Difference) -> bool:
    return "sub_after_7" in d.layouts[:-1]


def _lost(*layouts: str) -> Callable[[Difference], bool]:
    return lambda d: d.theirs == 0 and [*layouts] == d.layouts


def _numbered_otherwise(d: Difference) -> bool:
    meant = {"half": "commit", "commit": "delay", "delay": "order", "order": "half"}
    return d.theirs in MESSAGE_TYPES.values() and d.ours == meant.get(str(d.theirs))


_THROWS = "`{}`: all records of the body are lost"
_NULL = "NULL: the layout has no such field"
_SUB = ("SubBefore", "SubAfter")
_FROM_4_9 = between("4.9.0", "5.5.0")
_UNTIL_4_7 = between("4.4.0", "4.7.1")

KNOWN = (
    Known(
        name="empty text",
        releases=RELEASES,
        record_types=("Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall"),
        columns=("region", "group_name", "topic", "tags", "keys", "offset_msg_id"),
        theirs="empty",
        ours=_NULL,
        why="A new TraceBean or TraceContext starts so. An empty text is a value that some clients do write.",
        found=_invented(""),
    ),
    Known(
        name="zero",
        releases=RELEASES,
        record_types=RECORD_TYPES,
        columns=("body_length", "cost_ms", "retry_times"),
        theirs="0",
        ours=_NULL,
        why="The start value again; a cost of 0 ms would be an answer.",
        found=_invented(0),
    ),
    Known(
        name="success",
        releases=RELEASES,
        record_types=("Pub", "SubBefore", "EndTransaction"),
        columns=("success",),
        theirs="true",
        ours=_NULL,
        why="The start value again. An attempt that has only begun has not succeeded. (Pub: of 12 fields.)",
        found=_invented(True),
    ),
    Known(
        name="context code",
        releases=RELEASES,
        record_types=RECORD_TYPES,
        columns=("context_code",),
        theirs="0, success",
        ours=_NULL,
        why="The start value again. (SubAfter: of 6 fields.)",
        found=_invented("success"),
    ),
    Known(
        name="transaction check",
        releases=_FROM_4_9,
        record_types=("Pub", *_SUB, "Recall"),
        columns=("from_transaction_check",),
        theirs="false",
        ours=_NULL,
        why="The start value again.",
        found=_invented(False),
    ),
    Known(
        name="own address",
        releases=RELEASES,
        record_types=RECORD_TYPES,
        columns=("client_host", "store_host"),
        theirs="the address of the machine that decodes",
        ours=_NULL,
        why="A new TraceBean starts with it. It says nothing about the client or the broker of the record.",
        found=_own_address,
    ),
    Known(
        name="new request id",
        releases=RELEASES,
        record_types=("Pub", "EndTransaction", "Recall"),
        columns=("request_id",),
        theirs="a new id each time",
        ours=_NULL,
        why="A new TraceContext makes one. It names no attempt.",
        found=_new_request_id,
    ),
    Known(
        name="time of decoding",
        releases=RELEASES,
        record_types=("SubAfter",),
        columns=("event_time",),
        theirs="the time at which it is decoded",
        ours=_NULL,
        why="A SubAfter of 6, 7 or 8 fields has no time; a new TraceContext starts with now.",
        found=lambda d: d.ours is None and _is_now(d),
    ),
    Known(
        name="other numbers",
        releases=ORDER_IS_SECOND,
        record_types=("Pub", "EndTransaction"),
        columns=("msg_type",),
        theirs="by its own numbers: 1 order, 2 half, 3 commit, 4 delay",
        ours="by the numbers of all other releases: 1 half, 2 commit, 3 delay, 4 order",
        why="The wire has a number, and nothing on the wire says which release wrote it.",
        found=_numbered_otherwise,
    ),
    Known(
        name="empty keys at the end",
        releases=tuple(release for release in RELEASES if release != "4.8.0"),
        record_types=("SubBefore",),
        columns=(BODY,),
        theirs=_THROWS.format("ArrayIndexOutOfBoundsException"),
        ours="keys are empty",
        why="Java's `String.split` drops empty fields at the end; keys are the last field of a SubBefore.",
        found=_ends_empty,
    ),
    Known(
        name="empty group at the end",
        releases=tuple(release for release in RELEASES if WRITES[release]["SubAfter"] == "sub_after_9"),
        record_types=("SubAfter",),
        columns=("event_time",),
        theirs="the time at which it is decoded",
        ours="the time on the wire",
        why="The same `String.split`; of fewer than 9 fields their decoder does not read the time.",
        found=lambda d: d.ours is not None and d.rows[0]["group_name"] == "" and _is_now(d),
    ),
    Known(
        name="glued records",
        releases=between("4.8.0", "5.5.0"),
        record_types=("SubAfter",),
        columns=(BODY,),
        theirs=_THROWS.format("NumberFormatException"),
        ours="each record is a row",
        why="With access channel CLOUD 4.9.5 to 4.9.8 and 5.1.4 to 5.3.0 write no separator after a SubAfter. "
        "Their decoder reads the next record's type as a time.",
        found=lambda d: d.theirs == "NumberFormatException" and _glued(d),
    ),
    Known(
        name="glued records, before 4.8.0",
        releases=_UNTIL_4_7,
        record_types=("SubAfter",),
        columns=(BODY,),
        theirs="the second record is missing",
        ours="each record is a row",
        why="The same; these do not look behind the context code.",
        found=lambda d: d.theirs == 1 and d.ours == 2 and _glued(d),
    ),
    Known(
        name="Pub of 15 fields, before 4.8.0",
        releases=_UNTIL_4_7,
        record_types=("Pub",),
        columns=("offset_msg_id", "success", "client_host"),
        theirs="empty, true, and its own address",
        ours="what is on the wire",
        why="Of more than 14 fields they read 12. Written by 4.8.0, Go and others.",
        found=lambda d: d.ours is not None and d.layouts == ["pub_15"] and d.theirs == d.new,
    ),
    Known(
        name="SubAfter of 9 fields, before 4.8.0",
        releases=_UNTIL_4_7,
        record_types=("SubAfter",),
        columns=("event_time", "group_name"),
        theirs="the time at which it is decoded, and empty",
        ours="what is on the wire",
        why="They read 7 fields.",
        found=lambda d: (
            d.layouts == ["sub_after_9"]
            and d.ours is not None
            and (d.theirs == "" if d.column == "group_name" else _is_now(d))
        ),
    ),
    Known(
        name="SubBefore of 9 fields",
        releases=tuple(release for release in RELEASES if release != "4.8.0"),
        record_types=("SubBefore",),
        columns=("client_host",),
        theirs="its own address",
        ours="what is on the wire",
        why="They read 8 fields. Written by 4.8.0, Go and others.",
        found=lambda d: d.layouts == ["sub_before_9"] and d.ours is not None and d.theirs == d.new,
    ),
    Known(
        name="SubBefore of 8 fields, in 4.8.0",
        releases=("4.8.0",),
        record_types=("SubBefore",),
        columns=(BODY,),
        theirs=_THROWS.format("ArrayIndexOutOfBoundsException"),
        ours="each record is a row",
        why="It wants the ninth field, which no other Java release writes.",
        found=_threw("ArrayIndexOutOfBoundsException", "sub_before_8"),
    ),
    Known(
        name="EndTransaction, before 4.9.0",
        releases=between("4.4.0", "4.8.0"),
        record_types=("EndTransaction",),
        columns=(BODY,),
        theirs="the record is missing",
        ours="each record is a row",
        why="They know no such type, and pass over what they do not know.",
        found=_lost("end_transaction_13"),
    ),
    Known(
        name="Recall, before 5.3.2",
        releases=between("4.4.0", "5.3.1"),
        record_types=("Recall",),
        columns=(BODY,),
        theirs="the record is missing",
        ours="each record is a row",
        why="The same.",
        found=_lost("recall_7"),
    ),
    Known(
        name="rocketmq-enhance-client",
        releases=RELEASES,
        record_types=("Pub", "SubAfter"),
        columns=(BODY,),
        theirs=_THROWS.format("NumberFormatException"),
        ours="each record is a row",
        why="The client writes its host, or the time, where Java has a number.",
        found=_threw("NumberFormatException", "pub_15_rmqsdk", "sub_after_10_rmqsdk"),
    ),
    Known(
        name="NewLife.RocketMQ",
        releases=RELEASES,
        record_types=("Pub", "SubBefore", "SubAfter"),
        columns=(BODY,),
        theirs="the record is missing",
        ours="each record is a row",
        why="The client writes the type last.",
        found=lambda d: d.theirs == 0 and str(d.layouts[0]).endswith("_newlife"),
    ),
)
