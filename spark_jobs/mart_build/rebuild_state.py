"""What a rebuild has done: a file below `TRACE_HOME`, so that it goes on there after `kill -9`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from spark_jobs.mart_build.inputs import Published
from spark_jobs.process.text_file import replace_text

BRANCH_PREFIX = "rebuild_"


@dataclass
class RebuildState:
    """What a rebuild computes, and what is done of it.

    Attributes:
        id: part of the names of its branches.
        definitions: digest of what defines the rows that it computes.
        replaces: digest of what defines the rows of the marts that it started from.
        rebuilt: the models all of whose rows it computes.
        change_seq_to: the last change_seq of events that the base has.
        watermarks: cluster to the watermark of the base, as `Published` has it.
        kept_from: the time before which events had no records when it began.
        done: the models that are computed, and the other steps.
        next_change_seq_to, next_watermarks: of a catch-up that is complete on the branch, while the base is moved there.
    """

    id: str
    definitions: str
    replaces: str
    rebuilt: list[str]
    change_seq_to: int
    watermarks: dict[str, str]
    kept_from: datetime | None = None
    done: list[str] = field(default_factory=list)
    next_change_seq_to: int | None = None
    next_watermarks: dict[str, str] | None = None

    @property
    def branch(self) -> str:
        """The branch that its steps write."""
        return f"{BRANCH_PREFIX}{self.id}"

    @property
    def base(self) -> str:
        """The branch with the tables before the step: the marts that it started from, and later the last catch-up."""
        return f"{BRANCH_PREFIX}base_{self.id}"


_STATE = TypeAdapter(RebuildState)


def load(home: Path) -> RebuildState | None:
    """That of the rebuild that has begun; None without one."""
    try:
        return _STATE.validate_json(_file(home).read_text())
    except (FileNotFoundError, ValidationError):
        return None


def goes_on(home: Path, published: Published | None) -> bool:
    """Whether a rebuild has begun that can be published; the state of one that is, or whose marts were replaced, is removed."""
    begun = load(home)
    if begun is None:
        return False
    if published is not None and published.definitions != begun.replaces:
        remove(home)
        return False
    return True


def save(home: Path, state: RebuildState) -> None:
    replace_text(_file(home), _STATE.dump_json(state, indent=1).decode())


def remove(home: Path) -> None:
    """End the rebuild: a process that runs it stops after its step."""
    _file(home).unlink(missing_ok=True)


def _file(home: Path) -> Path:
    return home / "dbt" / "rebuild" / "state.json"
