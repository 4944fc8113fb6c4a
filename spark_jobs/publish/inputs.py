"""What a build of the marts is a function of: the records up to a change_seq, watermarks, limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from spark_jobs.ingest.positions import RUN_ID, Booked, watermarks
from spark_jobs.settings import Limits

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
PUBLICATION = "trace.publication"


@dataclass(frozen=True)
class Inputs:
    """Inputs of one build.

    Attributes:
        change_seq_to: the last change_seq of events that is read.
        watermarks: cluster to the time up to which its traces are complete, ms.
        limits: the limits that the definitions name.
    """

    change_seq_to: int
    watermarks: dict[str, int]
    limits: Limits

    @classmethod
    def of(cls, events: Booked, limits: Limits) -> Inputs | None:
        """The inputs for what events holds now; None if nothing was merged yet."""
        if not events.change_seq:
            return None
        return cls(events.change_seq, watermarks(events.positions), limits)

    @property
    def dbt_vars(self) -> dict[str, object]:
        """The vars of dbt_project (macros/run_inputs.sql, int_watermarks)."""
        return {
            "change_seq_to": self.change_seq_to,
            "watermarks": {cluster: _utc(ms) for cluster, ms in sorted(self.watermarks.items())},
            **{name: getattr(self.limits, name) for name in _MODEL_LIMITS},
        }

    def snapshot_properties(self, publication_id: str, run_id: str) -> dict[str, str]:
        """What each published snapshot says of where it comes from."""
        marks = {cluster: _utc(ms) for cluster, ms in sorted(self.watermarks.items())}
        return {
            CHANGE_SEQ_TO: str(self.change_seq_to),
            WATERMARKS: json.dumps(marks, separators=(",", ":")),
            PUBLICATION: publication_id,
            RUN_ID: run_id,
        }


def _utc(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
