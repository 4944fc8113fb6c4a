"""Messages of all kinds that producers send, the same for the same seed in every process.

Half of them go in batches, which no client compresses; the others one by one, by four codecs in turn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

CODECS = ("NONE", "ZLIB", "LZ4", "ZSTD")
QUEUES = 4
BATCH = 100
# Of so many messages, four in a row, by the four codecs, are so large, bytes; the others have up to 2 kB.
LARGE = ((1_000, 110, 100_000), (5_000, 120, 1_000_000))
_TEXTS = (
    "plain",
    "größer",
    "漢字かな交じり文",
    "🚀👩‍👩‍👧",
    "e\u0301 combining",
    "عربى",
    "\u2028 line",
    "a=b;c|d",
    '"\\',
)
_TRACE = b"Pub\x011795000000000\x01DefaultRegion\x01group\x01topic\x01AC1100010000\x01tag\x01key\x02"


@dataclass(frozen=True)
class Sent:
    """One message as it is handed to the producer. `delayed`: at delay level 1; `in_batch`: with its neighbours."""

    number: int
    queue: int
    codec: str
    body: bytes
    tag: str
    keys: str
    properties: dict[str, str]
    in_batch: bool
    delayed: bool


def messages(count: int, seed: int) -> Iterator[Sent]:
    """The first `count` messages of a seed."""
    for number in range(count):
        chance = random.Random(seed * 1_000_003 + number)
        batch = number // BATCH
        in_batch = batch % 2 == 0
        yield Sent(
            number=number,
            queue=batch % (2 * QUEUES) // 2 if in_batch else chance.randrange(QUEUES),
            codec=CODECS[0] if in_batch else CODECS[number % len(CODECS)],
            body=_body(chance, number),
            tag=chance.choice(_TEXTS[:4]),
            keys=" ".join(f"key-{chance.randrange(10**6)}" for _ in range(chance.randrange(4))),
            properties={
                f"{chance.choice(_TEXTS)}-{index}": chance.choice(_TEXTS) * chance.choice((1, 1, 3, 40))
                for index in range(chance.randrange(5))
            },
            in_batch=in_batch,
            delayed=not in_batch and number % 97 == 0,
        )


def _body(chance: random.Random, number: int) -> bytes:
    size = int(2 ** chance.uniform(0, 11))
    for one_of, first, large in LARGE:
        if first <= number % one_of < first + len(CODECS):
            size = large
    kind = chance.randrange(3)
    if kind == 0:
        return chance.randbytes(size)
    if kind == 1:
        return bytes(size)
    return (_TRACE * (size // len(_TRACE) + 1))[:size]
