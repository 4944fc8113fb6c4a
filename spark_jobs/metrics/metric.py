"""The types of a metric: its definition, as on docs/metrics.md, and its series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

PREFIX = "rocketmq_trace_"
Kind = Literal["gauge", "counter", "summary", "info"]
_SUFFIX = {"counter": "_total", "info": "_info"}


class Series(NamedTuple):
    """A series of a metric: the values of its labels, in the order of `Metric.labels`, and its value."""

    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class Metric:
    """The definition of a metric.

    Attributes:
        name: without the prefix, and without the suffix of its kind.
        labels: in the order of their values; a summary has `quantile` as the last one.
        meaning: of the value, in one sentence.
        source: the tables that it is read from.
        kind: in OpenMetrics.
        unit: base unit, with which the name ends; empty for a number of things.
        sql: of a metric of the marts, the query on the serving file: a column per label, and `value`.
    """

    name: str
    labels: tuple[str, ...]
    meaning: str
    source: str
    kind: Kind = "gauge"
    unit: Literal["seconds", "ratio", ""] = ""
    sql: str = ""

    @property
    def family(self) -> str:
        """The name with the prefix."""
        return PREFIX + self.name

    @property
    def full_name(self) -> str:
        """The name of the series, as in a query."""
        return self.family + _SUFFIX.get(self.kind, "")


Found = Mapping[Metric, list[Series]]
"""What a source has of each of its metrics; one without series is still exposed."""
