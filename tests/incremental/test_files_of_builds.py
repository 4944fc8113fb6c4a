"""Which data files a build removes and reads: its cost is that of what is new, also in an hour that has many rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

import pytest
from pyiceberg.catalog import Catalog

from tests.dbt.events import Events
from tests.incremental.builds import build
from tests.planning import FACTS, only_models, without_data_tests

COMPARED = ("fct_sends", "fct_consume_attempts", "fct_deliveries", "fct_messages")
INDEX = "intermediate.int_message_hours"
DAY, HOUR = 86_400, 3_600
OLD_DAYS = 9
# Longer than a message may take until it is an orphan.
LATER = 2 * DAY


def msg_id(number: int, seconds: float) -> str:
    """As a Java client writes it: with milliseconds since the start of the month. Second 0 is noon of 20 November."""
    ms = round((19.5 * DAY + seconds) * 1000)
    return f"0A0000011F90{0x5EC0FFEE:08X}{ms:08X}{number:04X}"


def consumed(number: int, seconds: float, into: Events) -> None:
    """A message that was sent, and consumed by group g."""
    name = msg_id(number, seconds)
    into.pub(name, seconds)
    into.attempt(name, f"r{number}", seconds + 1)


@dataclass(frozen=True)
class Files:
    """The data files of the facts and of the index, before and after a build; and the rows that they have."""

    before: dict[str, set[str]]
    after: dict[str, set[str]]
    rows_before: dict[str, int]
    rows_after: dict[str, int]

    def removed(self, table: str) -> set[str]:
        return self.before[table] - self.after[table]


@pytest.fixture(scope="module")
def files(empty_lake, catalog, settings, state) -> Iterator[tuple[Files, Files]]:
    """Of a build with a message in the hour of a hundred others, and of one without records, days later."""
    with only_models(*FACTS), without_data_tests():
        yield _built(empty_lake, catalog, settings, state)


def _built(empty_lake, catalog, settings, state) -> tuple[Files, Files]:
    first = Events()
    for number in range(100):
        consumed(number, number * 10 - OLD_DAYS * DAY * (number % 2), first)
    first.write(empty_lake, HOUR)
    build(empty_lake, catalog, settings, state)
    start = _files(catalog)

    second = Events()
    consumed(100, 600, second)
    for row in second.rows:
        row |= {"change_seq": 2, "queue_offset": row["queue_offset"] + len(first.rows)}
    second.write(empty_lake, HOUR + 60, 2)
    with _away(_files_of_old_days(catalog)):
        build(empty_lake, catalog, settings, state)
    middle = _files(catalog)

    Events().write(empty_lake, HOUR + LATER, 2)
    build(empty_lake, catalog, settings, state)
    end = _files(catalog)
    return Files(start[0], middle[0], start[1], middle[1]), Files(middle[0], end[0], middle[1], end[1])


def _files(catalog: Catalog) -> tuple[dict[str, set[str]], dict[str, int]]:
    names = [*(f"marts.{fact}" for fact in COMPARED), INDEX]
    found = {name: catalog.load_table(name).inspect.files() for name in names}
    return (
        {name: set(each["file_path"].to_pylist()) for name, each in found.items()},
        {name: sum(each["record_count"].to_pylist()) for name, each in found.items()},
    )


def _files_of_old_days(catalog: Catalog) -> list[Path]:
    rows = catalog.load_table(INDEX).inspect.files().to_pylist()
    found = [
        Path(urlparse(row["file_path"]).path) for row in rows if row["partition"]["key_day"] < OLD_DAYS + 3
    ]
    assert found
    assert len(found) < len(rows)
    return found


@contextmanager
def _away(paths: list[Path]) -> Iterator[None]:
    """Within the block nothing can read these files."""
    for path in paths:
        path.rename(path.with_suffix(".away"))
    try:
        yield
    finally:
        for path in paths:
            path.with_suffix(".away").rename(path)


@pytest.mark.parametrize("fact", COMPARED)
def test_a_new_message_in_a_full_hour_rewrites_no_file(files, fact):
    of_new_message, _ = files
    assert of_new_message.removed(f"marts.{fact}") == set()
    assert of_new_message.rows_after[f"marts.{fact}"] == of_new_message.rows_before[f"marts.{fact}"] + 1


def test_a_new_message_reads_the_days_of_its_id_alone(files):
    """The fixture has the others' files away."""
    of_new_message, _ = files
    assert of_new_message.removed(INDEX) == set()
    assert of_new_message.rows_after[INDEX] == of_new_message.rows_before[INDEX] + 1


@pytest.mark.parametrize("fact", COMPARED)
def test_consumed_messages_are_not_computed_again_when_they_could_be_orphans(files, fact):
    _, of_none = files
    assert of_none.removed(f"marts.{fact}") == set()
    assert of_none.rows_after == of_none.rows_before
