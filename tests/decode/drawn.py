"""Records of every layout with values drawn by chance, and what accidents do to their bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.trace.layouts import (
    BY_NAME,
    FIELD_SEPARATOR,
    FIELDS,
    LAYOUTS,
    RECORD_SEPARATOR,
    RECORD_TYPES,
    Kind,
    Layout,
)
from tests.decode.compare import LIMITS, STORED_MS

S, R = FIELD_SEPARATOR.encode(), RECORD_SEPARATOR.encode()

_PAST, _AHEAD = LIMITS.event_time_past_days * 86_400_000, LIMITS.event_time_ahead_seconds * 1000
TIMES = tuple(
    str(STORED_MS + ahead) for ahead in (0, -1234, -_PAST, -_PAST - 1, _AHEAD, _AHEAD + 1, -7 * 10**11)
)
CLOCKS = (
    "0",
    "99",
    "1795000000",
    "253402300799999",
    "253402300800000",
    str(2**63 - 1),
)  # of no use, yet times
TEXTS = (
    *(
        "",
        "null",
        "dKey",
        "orders",
        "%RETRY%mail-service",
        "MQ_INST_1%orders",
        "k1 k2",
        "a,b",
        " ",
        "7",
        "true",
    ),
    *(
        "Bestellung-ä",
        "订单",
        "🚚",
        "line\nbreak",
        "\ufffd",
        "\x00\x03",
        "1795000000000",
        "10.0.0.9@77",
        "x:1",
    ),
    *RECORD_TYPES,
)
WHOLES = (
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "007",
    "128",
    str(2**31),
    str(2**53 + 1),
    str(2**63 - 1),
    "0" * 30 + "9",
)
COSTS = ("0", "7", "12.5", "0.25", "-3", "-0", "-1.75", "00.50", str(2**40), str(2**63), "1" * 40)
STORE_HOSTS = ("10.0.0.1:10911", "broker-0.example:10911", "[fe80::1]:10911", "null", "", "h: 1:1")
CLIENT_HOSTS = ("10.0.0.9", "10.0.0.9@4711", "fe80::1%eth0", "[::1]@a@b", "2001:db8::ff:1", "::ffff:10.0.0.9")
BOOLEANS = ("true", "false", "TRUE", "False")


@dataclass(frozen=True)
class Values:
    """What the fields of each kind are drawn from."""

    texts: Sequence[str] = TEXTS
    times: Sequence[str] = TIMES
    clocks: Sequence[str] = CLOCKS
    wholes: Sequence[str] = WHOLES
    costs: Sequence[str] = COSTS
    booleans: Sequence[str] = BOOLEANS

    def of(self, layout: Layout, chance: random.Random) -> dict[str, str]:
        """The fields of one record by name. It cannot be mistaken for a record of another layout."""
        drawn = {name: chance.choice(self._kind(FIELDS[name].kind)) for name in layout.fields}
        if (
            "time" in drawn
            and layout.name != "sub_after_10_rmqsdk"
            and drawn["group"]
            and not chance.randrange(9)
        ):
            drawn["time"] = chance.choice(self.clocks)
        if layout.type_last and drawn["topic"] in RECORD_TYPES:
            drawn["topic"] = "orders"
        if "exactlyOnceStatus" in drawn:
            drawn["exactlyOnceStatus"] = chance.choice("0123")
        return drawn

    def _kind(self, kind: Kind) -> Sequence[str]:
        match kind:
            case Kind.TEXT:
                return self.texts
            case Kind.TIME:
                return self.times
            case Kind.INTEGER:
                return self.wholes
            case Kind.NUMBER:
                return self.costs
            case Kind.BOOLEAN:
                return self.booleans
            case Kind.STORE_HOST:
                return STORE_HOSTS
            case Kind.CLIENT_HOST:
                return CLIENT_HOSTS


def record(layout: Layout, values: dict[str, str]) -> bytes:
    """The record as its client writes it, with its end."""
    return FIELD_SEPARATOR.join(layout.wire(values)).encode() + R


def joined(chance: random.Random, values: Values) -> bytes:
    """Records between which a separator of fields stands, as pyrocketmq and Java with access channel CLOUD write."""
    layout = BY_NAME[chance.choice(("sub_after_7", "sub_after_9", "sub_before_9"))]
    run = [record(layout, values.of(layout, chance)) for _ in range(chance.randint(2, 4))]
    if layout.name == "sub_after_7":
        last = chance.choice(LAYOUTS)
        run.append(record(last, values.of(last, chance)))
    return S.join(each.removesuffix(R) for each in run) + R


def damaged_record(chance: random.Random, data: bytes) -> bytes:
    """The bytes of a record and its end after one to three accidents."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        data = chance.choice(_ACCIDENTS)(chance, data)
    return data


def damaged_body(chance: random.Random, data: bytes, other: bytes) -> bytes:
    """The bytes of a body after an accident: cut, spliced with another one, pieces in another order."""
    at, to = chance.randint(0, len(data)), chance.randint(0, len(data))
    match chance.randrange(5):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + other[chance.randint(0, len(other)) :]
        case 2:
            return data[: min(at, to)] + data[max(at, to) :]
        case 3:
            return data[:at] + data[min(at, to) : max(at, to)] + data[at:]
        case _:
            pieces = data.split(R)
            chance.shuffle(pieces)
            return R.join(pieces)


def _flip_a_bit(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data) or 1)
    return data[:at] + bytes(byte ^ 1 << chance.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]


def _another_byte(chance: random.Random, data: bytes) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + chance.choice(_BYTES) + data[at + 1 :]


def _insert(chance: random.Random, data: bytes) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + chance.choice(_BYTES) + data[at:]


def _lose(chance: random.Random, data: bytes) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + data[at + chance.choice((1, 1, 2, 9)) :]


def _double(chance: random.Random, data: bytes) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + data[at : at + chance.choice((1, 2, 20))] + data[at:]


def _cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randint(0, len(data))] + R


def _another_end(chance: random.Random, data: bytes) -> bytes:
    return data.removesuffix(R) + chance.choice((b"", S, S, S + R, S + S + R, R + R, R + S, b"\n" + R))


def _another_field(chance: random.Random, data: bytes) -> bytes:
    fields = data.removesuffix(R).split(S)
    fields[chance.randrange(len(fields))] = chance.choice(_PIECES)
    return S.join(fields) + R


def _field_more(chance: random.Random, data: bytes) -> bytes:
    fields = data.removesuffix(R).split(S)
    fields.insert(
        chance.randint(0, len(fields)), chance.choice((chance.choice(_PIECES), chance.choice(fields)))
    )
    return S.join(fields) + R


def _field_less(chance: random.Random, data: bytes) -> bytes:
    fields = data.removesuffix(R).split(S)
    del fields[chance.randrange(len(fields))]
    return S.join(fields) + R


def _swap_fields(chance: random.Random, data: bytes) -> bytes:
    fields = data.removesuffix(R).split(S)
    one, other = chance.randrange(len(fields)), chance.randrange(len(fields))
    fields[one], fields[other] = fields[other], fields[one]
    return S.join(fields) + R


_ACCIDENTS = (
    *(_flip_a_bit, _another_byte, _insert, _lose, _double, _cut, _another_end),
    *(_another_field, _another_field, _field_more, _field_less, _swap_fields),
)
_BYTES = (
    *(S, R, S, R, b"\x00", b"\xff", b"\xed\xa0\x80", b"\xed", b"\xe2\x82", b"\xc0\x80", b"\xf4\x90\x80\x80"),
    *(b"0", b"9", b".", b"-", b"+", b" ", b":", b"@", b"%", b"\n", b"\r", "\u2028".encode(), "\x85".encode()),
    *("٣".encode(), "ſ".encode(), b"K", "\ufffd".encode(), b"\xf0\x9f\x98"),
)
_PIECES = tuple(
    text.encode()
    for text in (
        *TEXTS,
        *TIMES,
        *CLOCKS,
        *WHOLES,
        *COSTS,
        *STORE_HOSTS,
        *CLIENT_HOSTS,
        *BOOLEANS,
        *("-1", "+7", " 7", "7 ", "7d", "1e3", "NaN", "Infinity", ".5", "5.", "-", "1.2.3", "0x7", "٣", "７"),
        *(str(2**63), "9" * 30, "9" * 400, "tRuE", "yes", "1", "falſe", "host", ":1", "host:", "NULL"),
        *("1.2.3", "1.2.3.4.5", "1000.0.0.1", "10.0.0.9:51234", "@77", ":", "::%", "[]", "g::1", "10.0.0.9 "),
    )
)
