r"""Trace bodies of every layout, as Parquet: what the decode benchmark reads.

The share of each layout is that of its writers in `MIX`; one record in a hundred is bad. Records of a body are of
mixed types, as a client's dispatcher gathers them. Everything comes from one seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.trace.layouts import BY_NAME, FIELD_SEPARATOR, LAYOUTS, RECORD_SEPARATOR, Layout

STORED_MS = 1_795_000_000_000
RECORDS_A_BODY = (1, 29)  # uniform: 15 on average
BAD_SHARE = 0.01

# Weights: what Java clients of today write is most of a real topic; every other layout is there too.
MIX = {name: 2.0 for name in BY_NAME} | {
    "pub_14": 24.0,
    "sub_before_8": 24.0,
    "sub_after_9": 24.0,
    "sub_after_7": 4.0,
    "end_transaction_13": 2.0,
}

COLUMNS = pa.schema(
    [
        ("cluster", pa.string()),
        ("trace_topic", pa.string()),
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("store_time", pa.timestamp("us", "UTC")),
        ("born_host", pa.string()),
        ("body", pa.binary()),
    ]
)


def write(folder: Path, bodies: int, files: int = 4, seed: int = 5) -> tuple[int, int]:
    """Write the bodies as `files` Parquet files; returns the number of records and of body bytes."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    records = size = 0
    for number in range(files):
        rows = []
        for offset in range(number * bodies // files, (number + 1) * bodies // files):
            pieces = list(_records(rng, rng.randint(*RECORDS_A_BODY)))
            body = "".join(pieces).encode()
            records, size = records + len(pieces), size + len(body)
            rows.append(
                (
                    "c",
                    "RMQ_SYS_TRACE_TOPIC",
                    "broker-a",
                    0,
                    offset,
                    (STORED_MS + offset) * 1000,
                    "10.1.2.3:5",
                    body,
                )
            )
        table = pa.table(
            [
                pa.array(column, kind)
                for column, kind in zip(zip(*rows, strict=True), COLUMNS.types, strict=True)
            ],
            schema=COLUMNS,
        )
        pq.write_table(table, folder / f"{number}.parquet", compression="none")
    return records, size


def _records(rng: random.Random, count: int) -> Iterator[str]:
    for name in rng.choices(list(MIX), list(MIX.values()), k=count):
        fields = _fields(rng, BY_NAME[name])
        if rng.random() < BAD_SHARE:
            _spoil(rng, fields)
        yield FIELD_SEPARATOR.join(fields) + RECORD_SEPARATOR


def _fields(rng: random.Random, layout: Layout) -> list[str]:
    """The fields on the wire of one record."""
    msg_id = f"{rng.getrandbits(128):032X}"
    values = {
        "time": str(STORED_MS - rng.randrange(60_000)),
        "region": "DefaultRegion",
        "group": rng.choice(
            ("stock-service", "order-producer", "mail-service", "please_rename_unique_group")
        ),
        "topic": rng.choice(("orders", "payments", "shipments-eu-central")),
        "msgId": msg_id,
        "tags": rng.choice(("TagA", "created", "null")),
        "keys": rng.choice((f"order-{rng.randrange(10**6)}", "null", f"k1 k2-{rng.randrange(1000)}")),
        "storeHost": f"10.20.0.{rng.randrange(9)}:10911",
        "bodyLength": str(rng.randrange(50, 5000)),
        "cost": str(int(rng.expovariate(0.2))),
        "msgType": rng.choice("00003"),
        "offsetMsgId": f"0A14000100002A9F{rng.getrandbits(64):016X}",
        "success": "true" if rng.random() < 0.98 else "false",
        "clientHost": f"10.30.0.{rng.randrange(200)}@{rng.randrange(9999)}",
        "requestId": f"{rng.getrandbits(128):032X}",
        "retryTimes": rng.choice("00001"),
        "contextCode": rng.choice("00000002"),
        "transactionId": msg_id,
        "transactionState": "COMMIT_MESSAGE",
        "fromTransactionCheck": "false",
        "exactlyOnceStatus": "0",
    }
    return layout.wire(values)


def _spoil(rng: random.Random, fields: list[str]) -> None:
    """A field too few or too many, or one that is not of its kind."""
    match rng.randrange(3):
        case 0:
            fields.pop()
        case 1:
            fields.insert(rng.randrange(1, len(fields)), "poisoned")
        case _:
            fields[1] = "not a number"


assert set(MIX) == {layout.name for layout in LAYOUTS}
