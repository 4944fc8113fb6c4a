"""Read rows of given hours from the serving file; of tables that are too large to copy, only the files of these hours."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import duckdb

from spark_jobs.lookup.identifiers import bucket_hash, identifier_hash
from spark_jobs.serving import object_store
from spark_jobs.serving.contents import current_file, files_function
from spark_jobs.settings import Settings

Row = dict[str, Any]
"""A row by column; times are naive, in UTC."""

Source = tuple[str, dict[str, object]]
"""A relation for `from`, and its named parameters."""

EVENTS = "events.trace_records"
INDEX = "intermediate.int_identifier_hours"
HOUR = timedelta(hours=1)
# A web server reads too; what needs more is written to a temporary file.
_MEMORY = "1GB"


@dataclass(frozen=True)
class Span:
    """A range of time: the hours that it has a part of."""

    first: datetime
    last: datetime


@dataclass
class Reader:
    """A serving file that is open: one publication.

    Attributes:
        settings: of the lake.
        connection: read-only.
        publication_id: what it shows.
        built_at: when the file was built, UTC.
        watermarks: of each cluster, the time up to which its traces are complete, UTC; None if unknown.
        files_total: all data files of tables that are read in place.
        paths_read: those of them that were opened so far.
    """

    settings: Settings
    connection: duckdb.DuckDBPyConnection
    publication_id: str
    built_at: datetime
    watermarks: dict[str, datetime | None]
    files_total: int = 0
    _in_place: set[str] = field(default_factory=set)
    paths_read: set[str] = field(default_factory=set)
    _hours: dict[tuple[str, str], list[datetime]] = field(default_factory=dict)
    _paths_of: dict[tuple[datetime, ...], dict[str, list[str]]] = field(default_factory=dict)

    @property
    def files_read(self) -> int:
        """The number of `paths_read`."""
        return len(self.paths_read)

    @classmethod
    @contextmanager
    def open(cls, settings: Settings) -> Iterator[Reader]:
        """Open the newest serving file.

        Raises:
            ServingFileError: there is none that this version can read.
        """
        with duckdb.connect(current_file(settings), read_only=True) as connection:
            connection.execute(f"set TimeZone = 'UTC'; set memory_limit = '{_MEMORY}'")
            object_store.open_warehouse(connection, settings)
            ((publication_id, built_at),) = connection.execute(
                "select publication_id, built_at from serving.publications"
            ).fetchall()
            watermarks = dict(connection.execute("select * from serving.watermarks order by 1").fetchall())
            in_place = {
                name
                for (name,) in connection.execute(
                    "select table_name from serving.relations where not is_copied"
                ).fetchall()
            }
            ((files,),) = connection.execute("select count(*) from serving.files").fetchall()
            yield cls(settings, connection, publication_id, built_at, watermarks, files, in_place)

    def query(self, sql: str, **parameters: object) -> list[Row]:
        """The rows of a query with named parameters, such as `$cluster`."""
        result = self.connection.execute(sql, parameters)
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def hours(self, cluster: str, identifier: str) -> list[datetime]:
        """The hours in which a cluster has records with an identifier, in order; none for an unknown one."""
        if (cluster, identifier) in self._hours:
            return self._hours[cluster, identifier]
        of = identifier_hash(cluster, identifier)
        files = self.query(
            "select path from serving.files where table_name = $table and (bucket is null or bucket = $hash % buckets)",
            table=INDEX,
            hash=bucket_hash(of),
        )
        source, parameters = self._files(INDEX, [row["path"] for row in files])
        found = self.query(
            f"select distinct hour from {source} where identifier_hash = $hash order by hour",
            hash=of,
            **parameters,
        )
        self._hours[cluster, identifier] = [row["hour"] for row in found]
        return self._hours[cluster, identifier]

    def source(self, table: str, hours: Collection[datetime] | Span | None = None) -> Source:
        """A relation of a table (name without the catalog) for `from`, and its parameters, named after the table.

        Args:
            table: a table of the serving file.
            hours: only rows whose partition, an hour or a day, has one of the hours; rows of other hours may be among
                them. None for all rows. A long range is a `Span`.
        """
        if table in self._in_place:
            return self._files(table, self._paths(hours).get(table, []))
        if hours is None:
            return table, {}
        name = _name(table)
        if isinstance(hours, Span):
            condition = f"date_trunc('hour', ${name}_first::timestamp) and ${name}_last::timestamp"
            return f"(select * from {table} where hour between {condition})", {
                f"{name}_first": hours.first,
                f"{name}_last": hours.last,
            }
        if not hours:
            return f"(from {table} limit 0)", {}
        # Constants: DuckDB skips row groups by them.
        constants = ", ".join(f"timestamp '{hour}'" for hour in hours)
        return f"(select * from {table} where hour in ({constants}))", {}

    def events(self, hours: Collection[datetime]) -> Source:
        """The events stored from the first of these hours to the end of the last one, as in `source`."""
        paths = self._paths(hours).get(EVENTS, [])
        source, parameters = self._files(EVENTS, paths, "$stored_from", "$stored_before")
        if paths:
            parameters |= {"stored_from": min(hours), "stored_before": max(hours) + HOUR}
        return source, parameters

    def _files(self, table: str, paths: list[str], *time_range: str) -> Source:
        """The rows of some files of a table that is read in place."""
        self.paths_read.update(paths)
        if not paths:
            return f"(from {table} limit 0)", {}
        arguments = ", ".join((f"${_name(table)}", *time_range))
        return f"{files_function(table)}({arguments})", {_name(table): paths}

    def _paths(self, hours: Collection[datetime] | Span | None) -> dict[str, list[str]]:
        """The files with rows of these hours, by table."""
        if hours is None:
            return self._query_paths("true")
        if isinstance(hours, Span):
            condition = "partition_from <= $last and partition_to > $first"
            return self._query_paths(condition, first=hours.first, last=hours.last)
        key = tuple(hours)
        if key not in self._paths_of:
            # Evaluated per row: a correlated subquery here is planned as a join, which takes longer than the scan.
            condition = "len(list_filter($hours::timestamp[], lambda hour: hour >= partition_from and hour < partition_to)) > 0"
            self._paths_of[key] = self._query_paths(condition, hours=list(hours))
        return self._paths_of[key]

    def _query_paths(self, condition: str, **parameters: object) -> dict[str, list[str]]:
        rows = self.query(
            f"select table_name, list(path) as paths from serving.files where partition_from is null or {condition} "
            "group by all",
            **parameters,
        )
        return {row["table_name"]: row["paths"] for row in rows}

    def rows(
        self, table: str, hours: Collection[datetime], where: str, columns: str = "*", **parameters: object
    ) -> list[Row]:
        """The rows of a table in these hours that match a condition.

        Args:
            table: name without the catalog; one with the column `hour`, or events and raw, which are divided by day.
            hours: the hours; the result may have rows of other hours of the same files.
            where: the condition, with named parameters.
            columns: to select.
            **parameters: of the condition.
        """
        if not hours:
            return []
        source, of_source = self.source(table, hours)
        return self.query(f"select {columns} from {source} where {where}", **of_source, **parameters)


def _name(table: str) -> str:
    return f"of_{table.split('.')[1]}"
