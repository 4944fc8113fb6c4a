"""What a build of the marts is a function of: the records up to a change_seq, watermarks, limits."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.lake.catalog import newest_summary
from spark_jobs.lake.offsets import RUN_ID, CommittedOffsets, watermarks
from spark_jobs.settings import PROJECT, Limits, Settings

DBT_PROJECT = PROJECT / "dbt_project"
# The limits that the models name; the others belong to the decoder.
_MODEL_LIMITS = (
    "grace_seconds",
    "consume_timeout_seconds",
    "retry_horizon_seconds",
    "max_delay_seconds",
    "expected_group_lookback_days",
    "max_retry_times",
)
CHANGE_SEQ_TO = "trace.change_seq_to"
WATERMARKS = "trace.watermarks"
DEFINITIONS = "trace.definitions"
PUBLICATION = "trace.publication"
# Every publication moves all tables, so one of them tells of it.
_ONE_OF_THE_MARTS = "marts.fct_messages"


@dataclass(frozen=True)
class Published:
    """What the marts that readers see are a function of.

    Attributes:
        change_seq_to: the last change_seq of events that was read.
        watermarks: cluster to its watermark, as text that sorts.
        definitions: digest of the models and limits.
    """

    change_seq_to: int
    watermarks: dict[str, str]
    definitions: str

    @classmethod
    def of(cls, settings: Settings) -> Published | None:
        """As main of the marts says; None before the first publication."""
        summary = newest_summary(settings, _ONE_OF_THE_MARTS, DEFINITIONS)
        if not summary:
            return None
        return cls(int(summary[CHANGE_SEQ_TO]), json.loads(summary[WATERMARKS]), summary[DEFINITIONS])


@dataclass(frozen=True)
class Inputs:
    """Inputs of one build.

    Attributes:
        change_seq_to: the last change_seq of events that is read.
        watermarks: cluster to the time up to which its traces are complete, ms.
        limits: the limits that the definitions name.
        definitions: digest of the models and limits.
        change_seq_from: the build takes up what came after it; None for a full refresh.
        kept_from: retention has dropped the records that were stored before; a full refresh keeps the published rows
            of these. None: nothing was dropped, or nothing is published that could be kept.
    """

    change_seq_to: int
    watermarks: dict[str, int]
    limits: Limits
    definitions: str = ""
    change_seq_from: int | None = None
    kept_from: datetime | None = None

    @classmethod
    def of(
        cls,
        events: CommittedOffsets,
        limits: Limits,
        published: Published | None,
        project: Path = DBT_PROJECT,
        kept_from: datetime | None = None,
        full_refresh: bool = False,
    ) -> Inputs | None:
        """The inputs for what events holds now; None if nothing was merged yet.

        The build is a full refresh where that is asked for, where nothing is published, where models or limits changed since,
        and where a watermark went back or away: then rows are to be judged otherwise that no new record touches.
        """
        if not events.change_seq:
            return None
        marks = watermarks(events.positions)
        definitions = digest(project, limits)
        if published is None:
            return cls(events.change_seq, marks, limits, definitions)
        inputs = cls(events.change_seq, marks, limits, definitions, kept_from=kept_from)
        if full_refresh or published.definitions != definitions:
            return inputs
        if any(inputs.marks.get(cluster, "") < mark for cluster, mark in published.watermarks.items()):
            return inputs
        return replace(inputs, change_seq_from=published.change_seq_to)

    @classmethod
    def over_all(cls, published: Published, limits: Limits) -> Inputs:
        """The inputs under which the published marts, all rows of them, would be built."""
        marks = {cluster: _ms(mark) for cluster, mark in published.watermarks.items()}
        return cls(published.change_seq_to, marks, limits, published.definitions)

    @property
    def marks(self) -> dict[str, str]:
        """The watermarks as the models read them."""
        return {cluster: _utc(ms) for cluster, ms in sorted(self.watermarks.items())}

    def adds_nothing_to(self, published: Published | None) -> bool:
        """Whether the marts that readers see are those of these inputs."""
        return published == Published(self.change_seq_to, self.marks, self.definitions)

    @property
    def dbt_vars(self) -> dict[str, object]:
        """The vars of dbt_project (macros/run_inputs.sql, macros/changes.sql, int_watermarks)."""
        return {
            "change_seq_from": self.change_seq_from,
            "change_seq_to": self.change_seq_to,
            "watermarks": self.marks,
            "kept_from": str(self.kept_from) if self.kept_from else None,
            **_model_limits(self.limits),
        }

    def snapshot_properties(self, publication_id: str, run_id: str) -> dict[str, str]:
        """What each published snapshot says of where it comes from."""
        return {
            CHANGE_SEQ_TO: str(self.change_seq_to),
            WATERMARKS: json.dumps(self.marks, separators=(",", ":")),
            DEFINITIONS: self.definitions,
            PUBLICATION: publication_id,
            RUN_ID: run_id,
        }


def digest(project: Path, limits: Limits) -> str:
    """Of everything but records and watermarks that the models' tables depend on: the project's files and the limits."""
    found = hashlib.sha256(json.dumps(_model_limits(limits)).encode())
    for file in sorted(project.rglob("*.*")):
        if file.suffix in (".sql", ".csv", ".yml"):
            found.update(f"\0{file.relative_to(project)}\0".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def _model_limits(limits: Limits) -> dict[str, int]:
    return {name: getattr(limits, name) for name in _MODEL_LIMITS}


def _utc(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def _ms(utc: str) -> int:
    return round(datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp() * 1000)
