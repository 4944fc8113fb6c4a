"""The inputs of a build of the marts: the records up to a change_seq, the watermarks, the limits."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.lake.catalog import trace_properties
from spark_jobs.lake.offsets import RUN_ID, CommittedOffsets, watermarks
from spark_jobs.settings import PROJECT, Limits, Settings

DBT_PROJECT = PROJECT / "dbt_project"
# The limits that the models use; the others belong to the decoder.
_MODEL_LIMITS = (
    "grace_seconds",
    "consume_timeout_seconds",
    "retry_horizon_seconds",
    "max_delay_seconds",
    "expected_group_lookback_days",
    "backlog_seconds",
    "offsets_lag_seconds",
    "max_retry_times",
)
CHANGE_SEQ_TO = "trace.change_seq_to"
WATERMARKS = "trace.watermarks"
DEFINITIONS = "trace.definitions"
PUBLICATION = "trace.publication"
# The table whose snapshots are searched for the inputs: every build commits to all tables, and `advance_marts` to this one.
WITH_INPUTS = "marts.fct_messages"


@dataclass(frozen=True)
class Published:
    """The inputs of the published marts.

    Attributes:
        change_seq_to: the last change_seq of events that was read.
        watermarks: cluster to its watermark, as sortable text. It may be later than that of the last build
            (`jobs.advance_marts`).
        definitions: digest of the models and limits.
        publication_id: the publication; it is no input of the marts, so comparisons ignore it.
    """

    change_seq_to: int
    watermarks: dict[str, str]
    definitions: str
    publication_id: str = field(default="", compare=False)

    @classmethod
    def of(cls, settings: Settings) -> Published | None:
        """Read from main of the marts; None before the first publication."""
        summary = trace_properties(settings, WITH_INPUTS, DEFINITIONS)
        if not summary:
            return None
        return cls(
            int(summary[CHANGE_SEQ_TO]),
            json.loads(summary[WATERMARKS]),
            summary[DEFINITIONS],
            summary.get(PUBLICATION, ""),
        )


@dataclass(frozen=True)
class Inputs:
    """Inputs of one build.

    Attributes:
        change_seq_to: the last change_seq of events that is read.
        watermarks: cluster to the time up to which its traces are complete, ms.
        limits: the limits of the definitions.
        definitions: digest of the models and limits.
        change_seq_from: the build reads records after it; None for a full refresh.
        kept_from: retention has dropped the records stored before this time; a full refresh keeps their published
            rows. None if nothing was dropped, or nothing is published.
        trace_topics: cluster to the trace topics that are read.
    """

    change_seq_to: int
    watermarks: dict[str, int]
    limits: Limits
    definitions: str = ""
    change_seq_from: int | None = None
    kept_from: datetime | None = None
    trace_topics: dict[str, list[str]] = field(default_factory=dict)

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
        """The inputs for the present state of events; None if nothing was merged yet.

        The build is a full refresh if it is requested, if nothing is published, if models or limits have changed, or if
        a watermark moved back or disappeared: then the state of rows changes that no new record touches.
        """
        if not events.change_seq:
            return None
        marks = watermarks(events.positions)
        definitions = digest(project, limits)
        topics: dict[str, list[str]] = {}
        for cluster, topic in sorted({(queue.cluster, queue.trace_topic) for queue in events.positions}):
            topics.setdefault(cluster, []).append(topic)
        inputs = cls(events.change_seq, marks, limits, definitions, trace_topics=topics)
        if published is None:
            return inputs
        inputs = replace(inputs, kept_from=kept_from)
        if full_refresh or published.definitions != definitions:
            return inputs
        if any(inputs.marks.get(cluster, "") < mark for cluster, mark in published.watermarks.items()):
            return inputs
        return replace(inputs, change_seq_from=published.change_seq_to)

    @classmethod
    def over_all(cls, published: Published, limits: Limits) -> Inputs:
        """The inputs that a full refresh of the published marts would have."""
        marks = {cluster: _ms(mark) for cluster, mark in published.watermarks.items()}
        return cls(published.change_seq_to, marks, limits, published.definitions)

    @property
    def marks(self) -> dict[str, str]:
        """The watermarks in the format of the models."""
        return {cluster: _utc(ms) for cluster, ms in sorted(self.watermarks.items())}

    def adds_nothing_to(self, published: Published | None) -> bool:
        """Whether the published marts were built from these inputs."""
        return published == Published(self.change_seq_to, self.marks, self.definitions)

    @property
    def dbt_vars(self) -> dict[str, object]:
        """The vars of the dbt project (dbt_project.yml)."""
        return {
            "change_seq_from": self.change_seq_from,
            "change_seq_to": self.change_seq_to,
            "watermarks": self.marks,
            "trace_topics": self.trace_topics,
            "kept_from": str(self.kept_from) if self.kept_from else None,
            **_model_limits(self.limits),
        }

    def snapshot_properties(self, publication_id: str, run_id: str) -> dict[str, str]:
        """The properties of each published snapshot."""
        return {
            CHANGE_SEQ_TO: str(self.change_seq_to),
            WATERMARKS: json.dumps(self.marks, separators=(",", ":")),
            DEFINITIONS: self.definitions,
            PUBLICATION: publication_id,
            RUN_ID: run_id,
        }


def digest(project: Path, limits: Limits) -> str:
    """A digest of the files of the dbt project and of the limits: all inputs but records and watermarks."""
    found = hashlib.sha256(json.dumps(_model_limits(limits)).encode())
    for file in sorted(project.rglob("*.*")):
        # `dbt compile` and similar commands write SQL files into target/.
        written_by_dbt = file.relative_to(project).parts[0] in ("target", "logs", "dbt_packages")
        if file.suffix in (".sql", ".csv", ".yml") and not written_by_dbt:
            found.update(f"\0{file.relative_to(project)}\0".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def _model_limits(limits: Limits) -> dict[str, int]:
    return {name: getattr(limits, name) for name in _MODEL_LIMITS}


def _utc(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def _ms(utc: str) -> int:
    return round(datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp() * 1000)
