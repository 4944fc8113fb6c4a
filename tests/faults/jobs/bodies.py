"""Trace-like bodies, and how many records they hold, counted without any code of the warehouse."""

from __future__ import annotations

import random

_SEP, _END = "\x01", "\x02"


def body(number: int) -> bytes:
    """The body of the message with that number: records of several kinds; some are torn, one in 97 has none."""
    rng = random.Random(number)
    if number % 97 == 0:
        return _END.encode()
    size = 200 if number % 211 == 0 else rng.randint(1, 6)  # the client compresses what is above 4 KB
    return "".join(_record(rng, f"{number:08X}{index:04X}") for index in range(size)).encode()


def _record(rng: random.Random, identity: str) -> str:
    time, cost = str(1_794_000_000_000 + rng.randrange(10**9)), str(rng.randrange(300))
    pub = ["Pub", time, "DefaultRegion", "order-producer", "orders", identity, "new", f"key-{identity}"]
    pub += ["10.0.0.1:10911", "256", cost, "0", f"0A{identity}", "true"]
    before = [
        "SubBefore",
        time,
        "DefaultRegion",
        "stock-service",
        f"rq{identity}",
        identity,
        "0",
        "grün 漢字",
    ]
    after = [
        "SubAfter",
        f"rq{identity}",
        identity,
        cost,
        "true",
        f"key-{identity}",
        "0",
        time,
        "stock-service",
    ]
    torn = ["SubAfter", f"rq{identity}", identity]
    return _SEP.join(rng.choices([pub, before, after, torn], [5, 5, 5, 1])[0]) + _END


def pieces(stored: bytes) -> int:
    """How many records a body holds: what stands between its separators."""
    return sum(1 for piece in stored.split(b"\x02") if piece)
