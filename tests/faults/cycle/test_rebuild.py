"""What ends a rebuild, and what runs without the published models; test_rebuild_killed.py kills one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from spark_jobs.lake import catalog, tables
from spark_jobs.lake.offsets import committed
from spark_jobs.mart_build import branches, dbt, projects, rebuild_state
from spark_jobs.mart_build.definitions import DBT_PROJECT, Definitions
from spark_jobs.mart_build.inputs import Published
from spark_jobs.mart_build.lock import one_rebuild
from spark_jobs.mart_build.rebuild import SupersededError
from spark_jobs.process.exit_codes import WORK
from tests.faults.cycle.rebuilding import CHANGED, LIMIT, add, begun, settings_of
from tests.faults.jobs.world import World

DUE = "spark_jobs.jobs.rebuild_due"
LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def published_world(filled, settings, broker, java) -> World:
    """There are marts, as other tests of the package may have built; then the limit is changed."""
    world = World(filled, settings, broker, java, ["rebuild"])
    world.make_topics()
    if Published.of(settings) is None:
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


def test_an_erasure_or_a_retention_ends_it(world: World):
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


def test_changes_that_were_taken_back_end_it(world: World):
    begun(world)
    home = world.settings.home
    assert rebuild_state.goes_on(home, Published.of(world.settings))
    assert world.run(DUE).code == WORK
    assert rebuild_state.load(home) is not None
    assert world.run(DUE, **{LIMIT: "7"}).code == 0
    assert rebuild_state.load(home) is None


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


def test_a_model_that_is_gone_needs_no_rebuild(world: World):
    """The rows of the others stay, so the normal run goes on with the models of this version."""
    published = Published.of(world.settings)
    settings = world.settings.model_copy(update={"rebuild": settings_of(world).rebuild})
    events = committed(settings, tables.EVENTS)
    assert events is not None
    of = dbt.definitions_in(settings.home / "dbt")

    def without_a_leaf(project, limits):
        found = of(project, limits)
        if project != DBT_PROJECT:
            return found
        return Definitions({name: node for name, node in found.nodes.items() if name != "slo_burn"})

    plan = projects.plan(settings, events, published, without_a_leaf)
    assert plan is not None
    assert plan.inputs is not None
    assert plan.project.folder == DBT_PROJECT
    assert (plan.postponed, plan.inputs.rebuilt) == (frozenset(), frozenset())
    assert plan.inputs.change_seq_from == published.change_seq_to


def test_marts_of_other_models_end_it(world: World):
    begun(world)
    published = Published.of(world.settings)
    assert published is not None
    assert not rebuild_state.goes_on(world.settings.home, replace(published, definitions="others"))
    assert rebuild_state.load(world.settings.home) is None


def test_nothing_is_due_while_another_process_rebuilds(world: World):
    with one_rebuild(world.settings.home, "another"):
        due = world.run(DUE)
    assert due.code == 0
    assert "another process rebuilds the marts" in due.output


def test_a_step_of_changed_files_ends_it(world: World, tmp_path):
    of, state = begun(world)
    project = tmp_path / "dbt_project"
    shutil.copytree(DBT_PROJECT, project, ignore=shutil.ignore_patterns("target", "logs"))
    model = project / "models" / "marts" / "slo_burn.sql"
    model.write_text(model.read_text() + "\nlimit 1")
    with pytest.raises(SupersededError, match="changed during the rebuild"):
        next(replace(of, project=project).run_steps(state, of.steps(state), "test"))
    assert rebuild_state.load(of.settings.home) is None
