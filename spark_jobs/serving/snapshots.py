"""The data files of an Iceberg snapshot, and those in which two snapshots differ; manifests that both have are not read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import DateType, TimestamptzType

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Changes:
    """The data files that a newer snapshot has and an older one has not, and the reverse."""

    added: list[DataFile]
    removed: list[DataFile]


@dataclass(frozen=True)
class Bucket:
    """A bucket of Iceberg's transform `bucket[of]`: rows whose Murmur3 hash of 31 bits is `number` modulo `of`."""

    number: int
    of: int


@dataclass(frozen=True)
class TimeRange:
    """The rows of a partition: those whose `column` is in [start, end), UTC."""

    column: str
    start: datetime
    end: datetime

    @property
    def condition(self) -> str:
        """The range as a condition on a column of DuckDB, which is a date or a time without a zone."""
        return f"{self.column} >= timestamp '{self.start}' and {self.column} < timestamp '{self.end}'"


def changes(table: Table, older: Snapshot | None, newer: Snapshot | None) -> Changes:
    """The files in which two snapshots differ; None is a snapshot without files.

    Raises:
        ValueError: the table has delete files.
    """
    before = _manifests(table, older) if older else {}
    after = _manifests(table, newer) if newer else {}
    gone = {f.file_path: f for f in _files(table, (before[path] for path in before.keys() - after.keys()))}
    come = {f.file_path: f for f in _files(table, (after[path] for path in after.keys() - before.keys()))}
    return Changes(
        [file for path, file in come.items() if path not in gone],
        [file for path, file in gone.items() if path not in come],
    )


def total_rows(snapshot: Snapshot | None) -> int:
    return int(snapshot.summary["total-records"] or 0) if snapshot and snapshot.summary else 0


def time_range(table: Table, file: DataFile) -> TimeRange | None:
    """The hour or day of the partition of a file; None if the table is not partitioned by one first."""
    if not table.spec().fields or file.spec_id != table.spec().spec_id:
        return None
    field, value = table.spec().fields[0], file.partition[0]
    column = table.schema().find_field(field.source_id)
    if value is None:
        return None
    # pyiceberg gives the days, or microseconds, since 1970.
    if isinstance(field.transform, DayTransform) or (
        isinstance(field.transform, IdentityTransform) and isinstance(column.field_type, DateType)
    ):
        day = _EPOCH + timedelta(days=value)
        return TimeRange(column.name, day, day + timedelta(days=1))
    if isinstance(field.transform, IdentityTransform) and isinstance(column.field_type, TimestamptzType):
        hour = _EPOCH + timedelta(microseconds=value)
        return TimeRange(column.name, hour, hour + timedelta(hours=1))
    return None


def bucket(table: Table, file: DataFile) -> Bucket | None:
    """The bucket of the partition of a file; None if the table has no buckets within an hour or day."""
    fields = table.spec().fields
    if len(fields) != 2 or file.spec_id != table.spec().spec_id:
        return None
    transform, number = fields[1].transform, file.partition[1]
    return Bucket(number, transform.num_buckets) if isinstance(transform, BucketTransform) else None


def _manifests(table: Table, snapshot: Snapshot) -> dict[str, ManifestFile]:
    found = {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
    if any(manifest.content == ManifestContent.DELETES for manifest in found.values()):
        raise ValueError(f"{'.'.join(table.name())} has delete files, which the serving file cannot read")
    return found


def _files(table: Table, manifests: Iterable[ManifestFile]) -> list[DataFile]:
    entries = (manifest.fetch_manifest_entry(table.io, discard_deleted=True) for manifest in manifests)
    return [entry.data_file for each in entries for entry in each]
