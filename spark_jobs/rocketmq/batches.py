"""Convert messages to Arrow record batches, with the columns of the data source.

The table `raw.trace_messages` (`dbt_project/models/sources/raw.yml`) has the same columns.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.rocketmq.message import Message
from spark_jobs.rocketmq.properties import Properties

BATCH_BYTES = 4 * 1024 * 1024
BATCH_ROWS = 8192
_COLLECT_EVERY = 50_000

# Column name and Spark SQL type, in the order of `ARROW_SCHEMA`.
COLUMNS = (
    ("cluster", "string"),
    ("trace_topic", "string"),
    ("broker", "string"),
    ("queue_id", "int"),
    ("epoch", "int"),
    ("queue_offset", "bigint"),
    ("store_time", "timestamp"),
    ("born_time", "timestamp"),
    ("born_host", "string"),
    ("store_host", "string"),
    ("sys_flag", "int"),
    ("body_crc", "int"),
    ("stored_size", "int"),
    ("keys", "string"),
    ("properties", "map<string,string>"),
    ("body", "binary"),
    ("body_error", "string"),
)
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)

_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "binary": pa.binary(),
}
ARROW_SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in COLUMNS])
# The largest timestamp of Spark: the end of the year 9999.
_LAST_MS = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class Origin:
    """The columns that are the same for all messages of a queue."""

    cluster: str
    trace_topic: str
    broker: str
    queue_id: int
    epoch: int


def record_batches(
    lists: Iterator[list[Message]],
    origin: Origin,
    max_bytes: int = BATCH_BYTES,
    max_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Group messages into record batches of `ARROW_SCHEMA`; a batch ends when it reaches `max_bytes` or `max_rows`."""
    rows: list[Message] = []
    size = 0
    with infrequent_garbage_collection():
        for messages in lists:
            rows += messages
            size += sum([len(message.body) for message in messages])
            if size >= max_bytes or len(rows) >= max_rows:
                yield record_batch(rows, origin)
                rows, size = [], 0
        if rows:
            yield record_batch(rows, origin)


@contextmanager
def infrequent_garbage_collection() -> Iterator[None]:
    """Run the garbage collector less often: messages form no cycles, and it traverses all that are buffered."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _COLLECT_EVERY) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def record_batch(messages: Sequence[Message], origin: Origin) -> pa.RecordBatch:
    """One record batch of `ARROW_SCHEMA`; an invalid time (0 or less, or after the year 9999) becomes NULL."""
    values = dict(zip(Message._fields, zip(*messages, strict=True), strict=True))
    properties, keys = _maps(values["properties"])
    columns = {
        "store_time": _times(values["store_time"]),
        "born_time": _times(values["born_time"]),
        "properties": properties,
        "keys": keys,
    }
    for column in ARROW_SCHEMA:
        if column.name in Origin.__slots__:
            value = pa.scalar(getattr(origin, column.name), column.type)
            columns[column.name] = pa.repeat(value, len(messages))
        elif column.name not in columns:
            columns[column.name] = pa.array(values[column.name], column.type)
    return pa.RecordBatch.from_arrays([columns[name] for name in ARROW_SCHEMA.names], schema=ARROW_SCHEMA)


def _times(ms: Sequence[int]) -> pa.Array:
    values = pa.array(ms, pa.int64())
    is_valid = pc.and_(pc.greater(values, 0), pc.less_equal(values, _LAST_MS))
    valid = pc.if_else(is_valid, values, pa.scalar(None, pa.int64()))
    return pc.multiply(valid, 1000).cast(_ARROW["timestamp"])


def _maps(properties: Sequence[Properties]) -> tuple[pa.MapArray, pa.Array]:
    r"""The column of the properties of all messages, and the column of their KEYS.

    Arrow's kernels parse them, which is cheaper than dictionaries. If a message has a property that is not
    `name \x01 value`, or has a name twice, the properties are parsed to dictionaries.
    """
    stored = pa.array([each.stored for each in properties], pa.binary())
    try:
        texts = pc.utf8_rtrim(stored.cast(pa.string()), "\x02")
    except pa.ArrowInvalid:  # not UTF-8
        return _maps_by_dictionaries(properties)
    pairs = pc.split_pattern(texts, "\x02")
    sides = pc.split_pattern(pairs.flatten(), "\x01", max_splits=1)
    if not pc.all(pc.equal(pc.list_value_length(sides), 2)).as_py():
        return _maps_by_dictionaries(properties)
    names, values = pc.list_element(sides, 0), pc.list_element(sides, 1)
    lists_of_names = pc.binary_join(pa.ListArray.from_arrays(pairs.offsets, names), "\x01")
    for each in pc.unique(lists_of_names).to_pylist():
        if len(set(split := each.split("\x01"))) < len(split):
            return _maps_by_dictionaries(properties)
    are_keys = pc.equal(names, "KEYS")
    rows = pc.list_parent_indices(pairs).filter(are_keys)
    keys = values.filter(are_keys).take(pc.index_in(pa.array(range(len(properties)), rows.type), rows))
    return pa.MapArray.from_arrays(pairs.offsets, names, values), keys


def _maps_by_dictionaries(properties: Sequence[Properties]) -> tuple[pa.MapArray, pa.Array]:
    maps = pa.array([list(each.items()) for each in properties], _ARROW["map<string,string>"])
    return maps, pa.array([each.get("KEYS") for each in properties], pa.string())
