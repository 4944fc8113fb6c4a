"""Damaged records: never an error, nothing lost, and every column as the model says.

`TRACE_SOAK_RECORDS=1000000` sets how many records are damaged, for a soak run.
"""

from __future__ import annotations

import os
import random
from collections import Counter

from spark_jobs.trace.layouts import LAYOUTS
from tests.decode import drawn
from tests.decode.compare import by_body, by_model, differing, smallest
from tests.decode.conftest import Decoded
from tests.decode.conservation import lost

RECORDS = int(os.environ.get("TRACE_SOAK_RECORDS", "12000"))
A_JOB = 50_000
HEADINGS = ("records", "damaged", "rows", "valid", "invalid", "lost", "different from the model")


def damaged_bodies(chance: random.Random, records: int) -> tuple[list[bytes], Counter[str]]:
    """Bodies of 1 to 29 records, until so many records are not what a client wrote."""
    values = drawn.Values()
    whole = [
        drawn.record(layout, values.of(layout, chance))
        for layout in LAYOUTS
        for _ in range(records // 50 + 1)
    ]
    whole += [drawn.joined(chance, values) for _ in range(records // 10)]
    found: list[bytes] = []
    counts: Counter[str] = Counter()
    while counts["damaged"] < records:
        pieces = chance.choices(whole, k=chance.randint(1, 29))
        broken = [drawn.damaged_record(chance, piece) for piece in pieces]
        counts["records"] += len(pieces)
        counts["damaged"] += sum(one != other for one, other in zip(pieces, broken, strict=True))
        body = b"".join(broken)
        found.append(body if chance.randrange(4) else drawn.damaged_body(chance, body, b"".join(found[-1:])))
    return found, counts


def test_damaged_records_decode_as_the_model_says(decoded: Decoded, record_property):
    def wrong(bodies: list[bytes]) -> list[int]:
        found = decoded(bodies)
        rows = by_body(found)
        unlike = differing(found, by_model(bodies, found.schema))
        missing = [at for at, body in enumerate(bodies) if lost(body, rows.get(at, []))]
        valid = found["invalid_reason"].null_count
        counts.update({"rows": found.num_rows, "valid": valid, "invalid": found.num_rows - valid})
        counts.update({"lost": len(missing), "different from the model": len(unlike)})
        return sorted({*unlike, *missing})

    counts: Counter[str] = Counter()
    failed: list[bytes] = []
    for seed, first in enumerate(range(0, RECORDS, A_JOB)):
        bodies, made = damaged_bodies(random.Random(seed), min(A_JOB, RECORDS - first))
        counts.update(made)
        failed += [bodies[at] for at in wrong(bodies)]
    record_property("counts", {heading: counts[heading] for heading in HEADINGS})
    assert not failed, f"{len(failed)} bodies, the smallest: {smallest(failed, wrong)!r}"
    assert counts["damaged"] >= RECORDS
    assert min(counts["valid"], counts["invalid"]) > RECORDS // 10  # both ends are reached
