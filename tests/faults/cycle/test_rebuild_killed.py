"""All rows of changed models are computed in steps: killed at any of them, it goes on there, and normal runs go on beside it.

Runs in `make soak`.
"""

from __future__ import annotations

import re

import pytest

from spark_jobs.jobs import marts, rebuild
from spark_jobs.lake import catalog
from spark_jobs.mart_build import branches, dbt, publication, rebuild_state
from spark_jobs.mart_build.inputs import Published
from tests import lakes
from tests.faults.cycle.rebuilding import CHANGED, add, settings_of
from tests.faults.jobs.world import World

JOB = "spark_jobs.jobs.rebuild"


@pytest.fixture(scope="module")
def world(filled, settings, broker, java) -> World:
    """All messages of a topic are in the marts; then the limit is changed."""
    world = World(filled, settings, broker, java, ["rebuild-killed"])
    world.make_topics()
    add(world, 200)
    assert world.marts() == 0
    world.extra.update(CHANGED)
    return world


def heads(world: World) -> dict[str, int | None]:
    """The snapshots that readers see."""
    lake = catalog.lake(world.settings)
    return {table: branches.heads(lake, table).get("main") for table in branches.audited_tables(lake)}


def rows(world: World) -> dict[str, list[str]]:
    lake = catalog.lake(world.settings)
    return {table: lakes.rows(lake, table) for table in branches.audited_tables(lake)}


def models_in(output: str) -> set[str]:
    """The models that were computed, as they were printed."""
    steps = re.findall(r"^\[\d+/\d+\] (.*): [\d.]+ s$", output, re.MULTILINE)
    return {name for step in steps for name in step.split(", ")}


def test_killed_it_goes_on_and_normal_runs_build_the_published_models_meanwhile(world: World, capfd):
    before, old = heads(world), Published.of(world.settings)
    assert old is not None
    process = world.start(JOB)
    process.wait_for("[2/")
    process.process.kill()
    killed = process.finished()
    assert "to rebuild" in killed.output
    assert "Normal runs go on" in killed.output
    assert heads(world) == before, "readers see the old marts"

    add(world, 50)
    capfd.readouterr()
    assert world.marts() == 0
    assert "This build goes on with the published models" in re.sub(r"\s+", " ", capfd.readouterr().err)
    now = Published.of(world.settings)
    assert now is not None
    assert now.change_seq_to > old.change_seq_to
    assert now.definitions == old.definitions
    assert heads(world) != before

    before = heads(world)
    die_in_mid_publication(world)
    done, again = models_in(killed.output), models_in(capfd.readouterr().err)
    assert len(done) > 1, "the first models"
    assert {"orphaned_messages", "orphan_rate_daily"} < again
    assert not done & again
    assert sum(head != before[table] for table, head in heads(world).items()) == 3

    assert world.marts() == 0
    assert "finished publication" in capfd.readouterr().err
    new = Published.of(world.settings)
    assert new is not None
    assert new.definitions == begun_digest(world)
    assert new.change_seq_to == now.change_seq_to
    assert rebuild_state.load(world.settings.home) is None
    lake = catalog.lake(world.settings)
    for table in branches.audited_tables(lake):
        assert list(branches.heads(lake, table)) == ["main"], table
    for namespace in branches.NAMESPACES_OF_REBUILD:
        assert branches.tables_in(lake, namespace) == []

    rebuilt = rows(world)
    assert rebuilt["marts.fct_messages"]
    assert world._here(marts.main, ["--full-refresh"]) == 0
    for table, found in rows(world).items():
        assert found == rebuilt[table], table
    assert world._here(rebuild.main, []) == 0
    assert "nothing to rebuild" in capfd.readouterr().err


def die_in_mid_publication(world: World) -> None:
    """The job, until it has published three tables."""
    left = list(range(3))
    replace_main = publication.replace_main

    def die(*arguments) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        replace_main(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publication, "replace_main", die)
        with pytest.raises(KeyboardInterrupt):
            world._here(rebuild.main, [])


def begun_digest(world: World) -> str:
    settings = settings_of(world)
    return dbt.definitions(settings.limits, settings.home / "dbt").digest
