"""The inputs of a build of the marts: the records up to a change_seq, the watermarks, the limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from spark_jobs.lake.catalog import lake, trace_properties
from spark_jobs.lake.offsets import RUN_ID, CommittedOffsets, watermarks
from spark_jobs.lake.tables import PUBLICATIONS
from spark_jobs.mart_build.definitions import Definitions, model_limits
from spark_jobs.settings import Limits, Settings

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
        definitions: digest of what defines the rows of all tables (`Definitions.digest`).
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
        definitions: digest of what defines the rows of all tables.
        change_seq_from: the build reads records after it; None for a full refresh.
        rebuilt: in a build that is no full refresh, the models all of whose rows are computed, as they have changed.
        kept_from: retention has dropped the records stored before this time; a full refresh keeps their published
            rows. None if nothing was dropped, or nothing is published.
        trace_topics: cluster to the trace topics that are read.
        rebuild: of a run of a rebuild, the branch with the tables before the run; None if that is main.
    """

    change_seq_to: int
    watermarks: dict[str, int]
    limits: Limits
    definitions: str = ""
    change_seq_from: int | None = None
    rebuilt: frozenset[str] = frozenset()
    kept_from: datetime | None = None
    trace_topics: dict[str, list[str]] = field(default_factory=dict)
    rebuild: str | None = None

    @classmethod
    def of(
        cls,
        events: CommittedOffsets,
        limits: Limits,
        published: Published | None,
        definitions: Definitions,
        built: Mapping[str, str] | None = None,
        kept_from: datetime | None = None,
        full_refresh: bool = False,
    ) -> Inputs | None:
        """The inputs for the present state of events; None if nothing was merged yet.

        The build is a full refresh if it is requested, if nothing is published, if all models have changed, or if
        a watermark moved back or disappeared: then the state of rows changes that no new record touches.

        Args:
            events: what was merged.
            limits: the limits of the definitions.
            published: the inputs of the published marts.
            definitions: those of the models.
            built: table to the digest of what defined its published rows; used only if the definitions have changed.
            kept_from: the time before which retention has dropped records.
            full_refresh: compute all rows.
        """
        if not events.change_seq:
            return None
        marks = watermarks(events.positions)
        topics = topics_of(events)
        inputs = cls(events.change_seq, marks, limits, definitions.digest, trace_topics=topics)
        if published is None:
            return inputs
        inputs = replace(inputs, kept_from=kept_from)
        rebuilt: set[str] = set()
        if published.definitions != definitions.digest:
            rebuilt = definitions.changed(built or {})
        if full_refresh or (rebuilt and len(rebuilt) == len(definitions.tables)):
            return inputs
        if any(inputs.marks.get(cluster, "") < mark for cluster, mark in published.watermarks.items()):
            return inputs
        return replace(inputs, change_seq_from=published.change_seq_to, rebuilt=frozenset(rebuilt))

    @property
    def of_rebuilt(self) -> Inputs:
        """The inputs of the second step of a build that computes all rows of some models."""
        return replace(self, change_seq_from=None, rebuilt=frozenset())

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
            "rebuild": self.rebuild,
            **model_limits(self.limits),
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


def inputs_now(
    settings: Settings,
    events: CommittedOffsets,
    published: Published | None,
    definitions: Definitions,
    kept_from: datetime | None = None,
    full_refresh: bool = False,
) -> Inputs | None:
    """`Inputs.of`, with what defined the published rows, which is read without Spark."""
    built = None
    if published is not None and published.definitions != definitions.digest:
        built = _built(settings, published.change_seq_to)
    return Inputs.of(events, settings.limits, published, definitions, built, kept_from, full_refresh)


def topics_of(events: CommittedOffsets) -> dict[str, list[str]]:
    """Cluster to its trace topics that were merged."""
    topics: dict[str, list[str]] = {}
    for cluster, topic in sorted({(queue.cluster, queue.trace_topic) for queue in events.positions}):
        topics.setdefault(cluster, []).append(topic)
    return topics


def changed_models(settings: Settings, published: Published, definitions: Definitions) -> set[str]:
    """The models of the audited tables that have changed since they were published, with all that are computed from them."""
    return definitions.changed(_built(settings, published.change_seq_to))


def _built(settings: Settings, change_seq_to: int) -> dict[str, str]:
    """Table to the digest of what defined its rows, in the newest publication up to this change_seq."""
    table = lake(settings).load_table(PUBLICATIONS.name)
    rows = table.scan(f"change_seq_to == {change_seq_to}").to_arrow().to_pylist()
    return {row["table_name"]: row["definition"] for row in sorted(rows, key=lambda row: row["created_at"])}


def _utc(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def _ms(utc: str) -> int:
    return round(datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp() * 1000)
