"""The dbt project that a build runs: that of this version, or the one that the published marts were built with.

If models have changed and events has many records, computing all rows takes long. The normal runs then go on with the project of
the published marts, of which every publication keeps a copy, until the job `rebuild` has published the changed ones.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from spark_jobs.lake.offsets import CommittedOffsets, records_after
from spark_jobs.mart_build.definitions import DBT_PROJECT, Definitions, files_of
from spark_jobs.mart_build.inputs import Inputs, Published, inputs_now
from spark_jobs.settings import Limits, Settings

_FOLDER = "published"  # below the folder for everything that dbt writes

# What defines the rows of the models of a project: `dbt.definitions`, or `definitions.known` in a process without dbt.
DefinitionsOf = Callable[[Path, Limits], Definitions | None]


@dataclass(frozen=True)
class Project:
    """A dbt project, the limits of its models, and what defines their rows."""

    folder: Path
    limits: Limits
    definitions: Definitions


@dataclass(frozen=True)
class Plan:
    """What a build does.

    Attributes:
        inputs: its inputs; None if nothing was merged yet.
        project: what it runs.
        postponed: the models that have changed, if the job `rebuild` is to compute their rows: the build runs the project of the
            published marts.
    """

    inputs: Inputs | None
    project: Project
    postponed: frozenset[str] = frozenset()


def plan(
    settings: Settings,
    events: CommittedOffsets,
    published: Published | None,
    definitions_of: DefinitionsOf,
    kept_from: datetime | None = None,
    full_refresh: bool = False,
) -> Plan | None:
    """The plan of a build; None if `definitions_of` does not know the definitions.

    Args:
        settings: where the lake is, the limits, and how many records a build computes at once.
        events: what was merged.
        published: the inputs of the published marts.
        definitions_of: see `DefinitionsOf`.
        kept_from: the time before which retention has dropped records.
        full_refresh: compute all rows.
    """
    own = _own(settings, definitions_of)
    if own is None:
        return None
    inputs = inputs_now(settings, events, published, own.definitions, kept_from, full_refresh)
    if published is None or full_refresh or published.definitions == own.definitions.digest:
        return Plan(inputs, own)
    if records_after(settings, None) <= settings.rebuild.at_once_records:
        return Plan(inputs, own)
    old = of_published(settings, published, definitions_of)
    if old is None:
        return Plan(inputs, own)
    if inputs is not None and inputs.change_seq_from is not None and not inputs.rebuilt:
        return Plan(inputs, own)  # a model is gone, and the rows of the others stay
    before = settings.model_copy(update={"limits": old.limits})
    going_on = inputs_now(before, events, published, old.definitions, kept_from)
    if going_on is None or going_on.change_seq_from is None:  # a full refresh is needed anyway
        return Plan(inputs, own)
    rebuilt = own.definitions.tables.keys() if inputs is None or not inputs.rebuilt else inputs.rebuilt
    return Plan(going_on, old, frozenset(rebuilt))


def of_published(settings: Settings, published: Published, definitions_of: DefinitionsOf) -> Project | None:
    """The project that the published marts were built with; None if it is not known."""
    own = _own(settings, definitions_of)
    if own is not None and own.definitions.digest == published.definitions:
        return own
    kept = _kept(settings.home / "dbt", published.definitions)
    try:
        limits = Limits.model_validate_json((kept / "limits.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    definitions = definitions_of(kept / "dbt_project", limits)
    # Another version of this program may find another digest.
    if definitions is None or definitions.digest != published.definitions:
        return None
    return Project(kept / "dbt_project", limits, definitions)


def keep(state: Path, folder: Path, limits: Limits, digest: str) -> None:
    """Keep a copy of the project of published marts, and remove those of earlier ones.

    Args:
        state: folder for everything that dbt writes.
        folder: the project.
        limits: those of its models.
        digest: of what defines the rows of all tables.
    """
    kept = _kept(state, digest)
    if folder == kept / "dbt_project":
        return
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".") as scratch:
            copy = Path(scratch) / digest
            for file in files_of(folder):
                target = copy / "dbt_project" / file.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
            (copy / "limits.json").write_text(limits.model_dump_json())
            copy.replace(kept)
    for other in kept.parent.iterdir():
        if other != kept:
            shutil.rmtree(other)


def _own(settings: Settings, definitions_of: DefinitionsOf) -> Project | None:
    found = definitions_of(DBT_PROJECT, settings.limits)
    return Project(DBT_PROJECT, settings.limits, found) if found else None


def _kept(state: Path, digest: str) -> Path:
    return state / _FOLDER / digest
