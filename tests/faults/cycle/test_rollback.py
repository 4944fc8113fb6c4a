"""All marts are put back to an earlier publication together, and the next run goes on from there."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from spark_jobs.lake import catalog
from spark_jobs.mart_build import branches, publication
from spark_jobs.mart_build.build import recover
from spark_jobs.mart_build.inputs import WITH_INPUTS, Published
from spark_jobs.mart_build.rollback import Publication, RollbackError, chosen, publications, roll_back
from spark_jobs.serving.contents import current_file
from tests import lakes
from tests.faults.jobs.world import World
from tests.soak import IS_SOAK

JOB = "spark_jobs.jobs.rollback"
Contents = dict[str, list[str]]


@pytest.fixture(scope="module")
def world(filled, settings, broker, java) -> World:
    """A topic without messages."""
    made = World(filled, settings, broker, java, ["rollback"])
    made.make_topics()
    return made


@pytest.fixture(scope="module")
def two(world: World) -> list[tuple[str, Contents]]:
    """The ids and the rows of two publications; the second one is published.

    Other tests of the package may have built the first one.
    """
    if Published.of(world.settings) is None:
        add(world)
    # The published id is another one if only the watermarks have advanced since.
    first = (known(world)[0].id, contents(world))
    add(world)
    second = (known(world)[0].id, contents(world))
    assert first[1] != second[1]
    return [first, second]


def add(world: World) -> None:
    world.write(100)
    assert world.ingest() == 0
    assert world.marts() == 0


def contents(world: World) -> Contents:
    lake = catalog.lake(world.settings)
    return {table: lakes.rows(lake, table) for table in branches.audited_tables(lake)}


def known(world: World) -> list[Publication]:
    return publications(catalog.lake(world.settings))


def served(world: World) -> int:
    """The sends that readers without Spark see."""
    with duckdb.connect(current_file(world.settings), read_only=True) as connection:
        (count,) = connection.execute(
            "select count(*) from marts.fct_sends where cluster = 'faults'"
        ).fetchone()
    return count


def test_killed_between_two_tables_the_next_run_finishes_it_and_the_publication_can_come_back(
    world: World, two: list[tuple[str, Contents]], monkeypatch: pytest.MonkeyPatch
):
    (first, rows), (last, newest) = two
    moved: list[str] = []
    replace = publication.replace_main

    def die_at_the_fourth(spark, table: str, *arguments: int) -> None:
        if len(moved) == 3:
            raise KeyboardInterrupt
        moved.append(table)
        replace(spark, table, *arguments)

    lake = catalog.lake(world.settings)
    to = chosen(known(world), None)
    assert to.id == first
    monkeypatch.setattr(publication, "replace_main", die_at_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        roll_back(world.spark, lake, to)
    monkeypatch.undo()
    assert sum(found != newest[table] for table, found in contents(world).items()) in range(1, 4)
    assert len(recover(world.spark, lake, world.settings)) == 1
    assert contents(world) == rows
    assert all([*branches.heads(lake, table)] == ["main"] for table in rows)
    if IS_SOAK:  # the next run goes on from there
        assert world.marts() == 0
    else:
        roll_back(world.spark, lake, chosen(known(world), last))
    assert contents(world) == newest


def test_the_command_shows_the_publications_and_readers_see_the_chosen_one(
    world: World, two: list[tuple[str, Contents]]
):
    (first, rows), (_, newest) = two
    looked = world.run(JOB, "--publication", first[:9], "--dry-run", JAVA_HOME="/nowhere")
    assert looked.code == 0, looked.output
    assert f"the marts would be put back to {first}" in looked.output
    assert contents(world) == newest
    before = served(world)
    done = world.run(JOB, "--publication", first[:9])
    assert done.code == 0, done.output
    assert "published now" in done.output
    assert contents(world) == rows
    assert served(world) < before
    again = world.run(JOB, "--publication", first[:9])
    assert again.code == 1
    assert again.output.splitlines()[-1] == f"failed: the published marts are those of {first}"
    # What was taken back can be published again.
    assert [each.id for each in known(world) if each.is_current][-1] == first
    later = next(each for each in known(world) if not each.is_current and not each.is_earlier)
    assert chosen(known(world), later.id) == later


def test_what_is_refused(world: World, two: list[tuple[str, Contents]]):
    with pytest.raises(RollbackError, match=r"there is no publication 0x"):
        chosen(known(world), "0x")
    with pytest.raises(RollbackError, match=r"publications begin with : give more of the id"):
        chosen(known(world), "")
    lake = catalog.lake(world.settings)
    later = next(each for each in known(world) if not each.is_current and not each.is_earlier)
    snapshot = later.snapshots[WITH_INPUTS]
    world.spark.sql(
        f"call lake.system.expire_snapshots(table => '{WITH_INPUTS}', snapshot_ids => array({snapshot}))"
    )
    with pytest.raises(RollbackError, match=rf"expired its snapshots of 1 tables, such as {WITH_INPUTS}"):
        chosen(known(world), later.id)
    assert snapshot not in {each.snapshot_id for each in lake.load_table(WITH_INPUTS).metadata.snapshots}


def test_the_table_of_a_model_that_is_gone_is_no_obstacle(world: World, two: list[tuple[str, Contents]]):
    """No build writes it any more, and nothing drops it."""
    lake = catalog.lake(world.settings)
    lake.create_table("marts.gone", pa.schema([("id", pa.int64())]))
    try:
        assert not [each.obstacle for each in known(world) if "other tables" in (each.obstacle or "")]
    finally:
        lake.drop_table("marts.gone")
