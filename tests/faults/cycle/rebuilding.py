"""A rebuild of the lake of `World`: a limit is another one, on which a dozen tables depend, and events are many."""

from __future__ import annotations

from datetime import datetime

from spark_jobs.lake import catalog
from spark_jobs.mart_build import dbt, rebuild_state
from spark_jobs.mart_build.inputs import Published
from spark_jobs.mart_build.rebuild import Rebuild
from spark_jobs.settings import Settings
from tests.faults.jobs.world import World

LIMIT = "TRACE_LIMITS__EXPECTED_GROUP_LOOKBACK_DAYS"
CHANGED = {"TRACE_REBUILD__AT_ONCE_RECORDS": "0", LIMIT: "6"}


def add(world: World, messages: int) -> None:
    world.write(messages)
    assert world.extract() == 0
    assert world.merge() == 0


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
