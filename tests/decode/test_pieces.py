"""The pieces of a body without Spark (for the look-up) are those of the decoder, so `record_index` names the same record."""

from __future__ import annotations

import random

from pyspark.sql import SparkSession

from spark_jobs.trace.glued import split
from spark_jobs.trace.layouts import LAYOUTS
from spark_jobs.trace.pieces import with_pieces
from tests.decode import drawn
from tests.decode.test_clients import CLIENTS

BODIES = 2000


def some_bodies() -> list[bytes]:
    chance = random.Random(7)
    values = drawn.Values()
    found = [each.body.replace("|", "\x01").replace("¶", "\x02").encode() for each in CLIENTS]
    while len(found) < BODIES:
        records = []
        for _ in range(chance.randint(1, 5)):
            layout = chance.choice(LAYOUTS)
            one = drawn.record(layout, values.of(layout, chance))
            records.append(
                chance.choice((one, one, drawn.joined(chance, values), drawn.damaged_record(chance, one)))
            )
        found.append(b"".join(records))
    return found


def test_the_pieces_are_those_of_the_decoder(spark: SparkSession):
    bodies = [body for body in some_bodies() if _is_text(body)]
    rows = [(number, bytearray(body), None) for number, body in enumerate(bodies)]
    messages = spark.createDataFrame(rows, "number int, body binary, body_error string")
    in_spark = {row.number: row.pieces for row in with_pieces(messages, ("number",)).collect()}
    different = {
        number: (in_spark[number], split(body.decode()))
        for number, body in enumerate(bodies)
        if in_spark[number] != split(body.decode())
    }
    assert different == {}
    assert sum(len(split(body.decode())) > body.count(b"\x02") + 1 for body in bodies) > 100, (
        "glued records are among them"
    )


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
