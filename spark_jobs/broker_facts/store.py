"""Write the facts of a collection, without Spark: one commit per table, each a compare-and-set on what was compared with.

The current rows of a cluster are one partition per table (without `valid_to`). A commit replaces that partition and appends the
rows that ended, so that state and history cannot differ. A writer that loses the race compares again with the new state. The
tables are committed one after the other, `observations` last: a collection that was killed in between left no row there, and
the next one adds what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import EqualTo, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table as IcebergTable

from spark_jobs.broker_facts.changes import Changes, Current, Found, changes
from spark_jobs.broker_facts.collect import Collection
from spark_jobs.broker_facts.fact_tables import FACT_TABLES, FactTable, Key, Row
from spark_jobs.lake.catalog import lake, retry_commit
from spark_jobs.lake.offsets import RUN_ID, committed_positions, watermarks
from spark_jobs.lake.tables import BROKERS, MESSAGE_CHECKS, OBSERVATIONS, RAW, Table
from spark_jobs.settings import BrokerFacts, Settings

# The brokers' default of fileReservedTime.
RETENTION_HOURS = 72


@dataclass(frozen=True)
class Saved:
    """What a collection added.

    Attributes:
        rows: table name to the number of rows that were added; tables without any are left out.
        superseded: a later collection, or another extraction, was published first; what was not written yet is dropped.
    """

    rows: dict[str, int]
    superseded: bool = False


def watermark_of(settings: Settings, cluster: str) -> datetime | None:
    """The cluster's watermark in raw, UTC; None if nothing was extracted."""
    ms = watermarks(committed_positions(settings, RAW)).get(cluster)
    return datetime.fromtimestamp(ms / 1000, UTC) if ms is not None else None


def removed_brokers(settings: Settings, cluster: str, now: datetime) -> set[str]:
    """The brokers that were last registered so long ago that all of their messages have expired (`retention_hours`)."""
    of_cluster = EqualTo(term=Reference("cluster"), value=literal(cluster))
    rows = lake(settings).load_table(BROKERS.name).scan(of_cluster).to_arrow().to_pylist()
    newest = {row["broker"]: row for row in sorted(rows, key=lambda row: row["valid_from"])}
    return {
        broker
        for broker, row in newest.items()
        if row["valid_to"]
        and row["valid_to"] <= now - timedelta(hours=row["retention_hours"] or RETENTION_HOURS)
    }


def save(
    settings: Settings, collection: Collection, watermark: datetime | None, limits: BrokerFacts, run_id: str
) -> Saved:
    """Add what changed. A second collection of the same facts adds a row per broker to `observations` and nothing else.

    Args:
        settings: where the lake is.
        collection: what the brokers answered.
        watermark: `watermark_of` before the brokers were asked.
        limits: of the rows of offsets.
        run_id: of the extraction.

    Raises:
        CommitFailedException: ten attempts conflicted with other writers.
    """
    catalog = lake(settings)
    added: dict[str, int] = {}
    if _is_superseded(settings, catalog, collection, watermark):
        return Saved(added, superseded=True)
    for facts in FACT_TABLES:
        count = retry_commit()(_save, catalog, facts, collection, limits, run_id)
        if count:
            added[facts.table.name] = count
    rows = [
        row | {"cluster": collection.cluster, "watermark": watermark, "run_id": run_id}
        for row in collection.observations
    ]
    if not rows or not retry_commit()(_save_observations, settings, catalog, collection, watermark, rows):
        return Saved(added, superseded=bool(rows))
    return Saved(added | {OBSERVATIONS.name: len(rows)})


def save_message_checks(
    settings: Settings,
    collection: Collection,
    watermark: datetime | None,
    rows: list[Row],
    limits: BrokerFacts,
    run_id: str,
) -> int:
    """Append the checks of a collection that is saved; return how many were.

    Checks that another collection has added in the meantime are left out.

    Args:
        settings: where the lake is.
        collection: whose facts the messages were judged with.
        watermark: as given to `save`.
        rows: without `cluster` and `run_id`.
        limits: how long a check is not repeated.
        run_id: of the extraction.

    Raises:
        CommitFailedException: ten attempts conflicted with other writers.
    """
    full = [row | {"cluster": collection.cluster, "run_id": run_id} for row in rows]

    def append() -> int:
        catalog = lake(settings)
        table = catalog.load_table(MESSAGE_CHECKS.name)
        if _is_superseded(settings, catalog, collection, watermark, is_saved=True):
            return 0
        known = {_checked(row) for row in _recent_checks(catalog, collection, limits)}
        new = [row for row in full if _checked(row) not in known]
        if new:
            table.append(_arrow(table, new), snapshot_properties={RUN_ID: run_id})
        return len(new)

    return retry_commit()(append) if full else 0


def _recent_checks(catalog: Catalog, collection: Collection, limits: BrokerFacts) -> list[Row]:
    """topic, msg_id and consumer_group of the cluster's checks that are not repeated yet."""
    since = collection.observed_at - timedelta(minutes=limits.recheck_minutes)
    condition = f"cluster = '{collection.cluster}' and checked_at > '{since.isoformat()}'"
    columns = ["topic", "msg_id", "consumer_group"]
    return list(scan(catalog.load_table(MESSAGE_CHECKS.name), condition, columns).to_pylist())


def _checked(row: Row) -> tuple[str, str, str | None]:
    return row["topic"], row["msg_id"], row["consumer_group"]


def current_rows(catalog: Catalog, table: Table, cluster: str) -> list[Row]:
    """The current rows of a cluster in a table of periods."""
    rows = scan(catalog.load_table(table.name), f"cluster = '{cluster}' and valid_to is null")
    return list(rows.to_pylist())


def _is_superseded(
    settings: Settings,
    catalog: Catalog,
    collection: Collection,
    watermark: datetime | None,
    *,
    is_saved: bool = False,
) -> bool:
    """Whether facts that are added now could change what was judged already.

    That is so if another extraction of the cluster has been published since the brokers were asked, or if a collection that
    asked at the same time or later is complete; one that `is_saved` is itself complete.
    """
    later = f"cluster = '{collection.cluster}' and observed_at {'>' if is_saved else '>='} "
    later += f"'{collection.observed_at.isoformat()}'"
    return (
        watermark_of(settings, collection.cluster) != watermark
        or scan(catalog.load_table(OBSERVATIONS.name), later, ["broker"]).num_rows > 0
    )


def _save_observations(
    settings: Settings,
    catalog: Catalog,
    collection: Collection,
    watermark: datetime | None,
    rows: list[Row],
) -> bool:
    """Append the observations; return whether they were, in one attempt."""
    table = catalog.load_table(OBSERVATIONS.name)
    if _is_superseded(settings, catalog, collection, watermark):
        return False
    table.append(_arrow(table, rows), snapshot_properties={RUN_ID: rows[0]["run_id"]})
    return True


def _save(
    catalog: Catalog, facts: FactTable, collection: Collection, limits: BrokerFacts, run_id: str
) -> int:
    """Compare a table with the collection and commit the changes; return the number of rows added, in one attempt."""
    table = catalog.load_table(facts.table.name)
    is_current = f"cluster = '{collection.cluster}' and valid_to is null"
    current = scan(table, is_current)
    positions, state = _state(facts, current)

    def rows_of(keys: Iterable[Key]) -> dict[Key, Row]:
        rows = current.take([positions[key] for key in keys]).to_pylist()
        return {facts.key_of(row): row for row in rows}

    found = _without_later(collection.found[facts.table.name], state, collection.observed_at)
    interval = timedelta(minutes=limits.offsets_minutes)
    done = changes(facts, state, rows_of, found, collection.observed_at, interval, limits.jump_messages)
    if not done:
        return 0
    after = _after(table, current, [positions[key] for key in done.ended], done, collection, run_id)
    if current.num_rows:
        table.overwrite(after, overwrite_filter=is_current, snapshot_properties={RUN_ID: run_id})
    else:
        table.append(after, snapshot_properties={RUN_ID: run_id})
    return len(done.added)


def _state(facts: FactTable, current: pa.Table) -> tuple[dict[Key, int], dict[Key, Current]]:
    """Per key the position of its current row, and what is compared."""
    columns = [current[name].to_pylist() for name in facts.key]
    keys = list(zip(*columns, strict=True))
    since = current["valid_from"].combine_chunks().dictionary_encode()  # few times, which are slow to convert
    times = since.dictionary.to_pylist()
    known = map(Current, current["digest"].to_pylist(), [times[index] for index in since.indices.to_pylist()])
    return {key: position for position, key in enumerate(keys)}, dict(zip(keys, known, strict=True))


def _without_later(found: Found, state: dict[Key, Current], observed_at: datetime) -> Found:
    """What was found, without brokers of which a collection that asked later has added rows already."""
    later = {key[0] for key, known in state.items() if known.valid_from >= observed_at}
    if not later:
        return found
    rows = [row for row in found.rows if row["broker"] not in later]
    return Found(rows, lambda key: key[0] not in later and found.is_gone(key))


def _after(
    table: IcebergTable,
    current: pa.Table,
    ended: list[int],
    done: Changes,
    collection: Collection,
    run_id: str,
) -> pa.Table:
    """The new current rows of the cluster, and the rows that ended."""
    is_ended = pc.is_in(pa.array(range(current.num_rows), pa.int64()), pa.array(ended, pa.int64()))
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    ends = pa.array([collection.observed_at], schema.field("valid_to").type)[0]
    valid_to = pc.if_else(is_ended, ends, pa.scalar(None, ends.type))
    kept = current.set_column(current.schema.get_field_index("valid_to"), "valid_to", valid_to)
    same = {"cluster": collection.cluster, "valid_from": collection.observed_at, "run_id": run_id}
    return pa.concat_tables([kept.cast(schema), _arrow(table, [row | same for row in done.added])])


def scan(table: IcebergTable, rows: str, columns: list[str] | None = None) -> pa.Table:
    return table.scan(rows, selected_fields=tuple(columns or ("*",))).to_arrow()


def _arrow(table: IcebergTable, rows: list[Row]) -> pa.Table:
    """Rows as Arrow, in the types of the table; a missing column is NULL."""
    return pa.Table.from_pylist(rows, schema=schema_to_pyarrow(table.schema(), include_field_ids=False))
