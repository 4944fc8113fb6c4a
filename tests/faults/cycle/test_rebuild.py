"""All rows of changed models are computed in steps: killed at any of them, it goes on there, and normal runs go on beside it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from spark_jobs.jobs import marts, rebuild
from spark_jobs.lake import catalog, tables
from spark_jobs.lake.offsets import committed
from spark_jobs.mart_build import branches, dbt, projects, publication, rebuild_state
from spark_jobs.mart_build.inputs import Published
from spark_jobs.mart_build.rebuild import Rebuild, SupersededError
from spark_jobs.settings import Settings
from tests import lakes
from tests.faults.jobs.world import World
from tests.soak import IS_SOAK

JOB = "spark_jobs.jobs.rebuild"
# Events are many, and a limit is another one, on which a dozen tables depend.
LATER = datetime(2100, 1, 1, tzinfo=UTC)
LIMIT = "TRACE_LIMITS__EXPECTED_GROUP_LOOKBACK_DAYS"
CHANGED = {"TRACE_REBUILD__AT_ONCE_RECORDS": "0", LIMIT: "6"}


@pytest.fixture(scope="module")
def published_world(filled, settings, broker, java) -> World:
    """All messages of a topic are in the marts; then the limit is changed."""
    world = World(filled, settings, broker, java, ["rebuild"])
    world.make_topics()
    add(world, 200)
    assert world.marts() == 0
    world.extra.update(CHANGED)
    return world


@pytest.fixture
def world(published_world: World) -> Iterator[World]:
    """Without a rebuild that has begun."""
    yield published_world
    rebuild_state.remove(published_world.settings.home)
    branches.drop_rebuild(published_world.spark, catalog.lake(published_world.settings))


def add(world: World, messages: int) -> None:
    world.write(messages)
    assert world.extract() == 0
    assert world.merge() == 0


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


def settings_of(world: World) -> Settings:
    """Those that the jobs have."""
    days = int(world.extra.get(LIMIT, 7))
    limits = world.settings.limits.model_copy(update={"expected_group_lookback_days": days})
    section = world.settings.rebuild.model_copy(update={"at_once_records": 0})
    return world.settings.model_copy(update={"limits": limits, "rebuild": section})


def begun(world: World, kept_from: datetime | None = None) -> tuple[Rebuild, rebuild_state.RebuildState]:
    settings = settings_of(world)
    found = Rebuild(
        world.spark,
        catalog.lake(settings),
        settings,
        dbt.definitions(settings.limits, settings.home / "dbt"),
        lambda: kept_from,
    )
    published = Published.of(settings)
    assert published is not None
    return found, found.begin(published)


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
    if IS_SOAK:  # else tests/incremental has it
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


def test_an_erasure_or_a_retention_ends_it(world: World):
    del world.extra[LIMIT]  # models have changed again
    of, state = begun(world)
    assert begun(world)[1].id == state.id, "it goes on"
    steps = of.steps(state)
    assert next(of.run_steps(state, steps, "test")).passed
    assert state.done == steps[0]
    assert of.steps(state) == steps[1:]
    rebuild_state.remove(of.settings.home)  # as the job `erase` does
    with pytest.raises(SupersededError, match="ended by another job"):
        next(of.run_steps(state, steps[1:], "test"))

    of, state = begun(world)
    with pytest.raises(SupersededError, match="retention has dropped records"):
        next(replace(of, kept_from=lambda: LATER).run_steps(state, of.steps(state), "test"))
    _, state = begun(world)
    assert begun(world, LATER)[1].id != state.id, "its next steps could not compute what was dropped"


def test_without_a_copy_of_the_published_models_a_normal_run_computes_the_changed_ones(world: World):
    settings = settings_of(world)
    events, published = committed(settings, tables.EVENTS), Published.of(settings)
    assert events is not None
    of = dbt.definitions_in(settings.home / "dbt")
    plan = projects.plan(settings, events, published, of)
    assert plan is not None
    assert plan.inputs is not None
    assert plan.postponed
    assert plan.inputs.rebuilt == frozenset()
    assert plan.inputs.limits != settings.limits

    shutil.rmtree(settings.home / "dbt" / "published")
    plan = projects.plan(settings, events, published, of)
    assert plan is not None
    assert plan.inputs is not None
    assert not plan.postponed
    assert plan.inputs.rebuilt
    assert plan.inputs.limits == settings.limits
