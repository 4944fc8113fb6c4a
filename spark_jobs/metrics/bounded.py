"""Bound the number of series of a metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_jobs.metrics.metric import Metric, Series

# RocketMQ allows no longer names of groups, and shorter ones of topics. A trace may have any text.
LONGEST_LABEL = 255
_GROUPS = ("consumer_group", "producer_group")


def bounded(
    metric: Metric, series: Iterable[Series], most: int, traffic: Mapping[tuple[str, ...], float]
) -> tuple[list[Series], int]:
    """The series to expose, in the order of their labels, and the number of those that are left out.

    A topic and group keeps all of its series or none: those with the most traffic come first, then by name.

    Args:
        metric: of the series.
        series: all of them.
        most: how many may be exposed.
        traffic: by (cluster, topic, group).
    """
    of_entity: dict[tuple[str, ...], list[Series]] = {}
    total = 0
    for each in series:
        total += 1
        if all(len(value) <= LONGEST_LABEL for value in each.labels):
            of_entity.setdefault(_entity(metric, each), []).append(each)
    kept: list[Series] = []
    for entity in sorted(of_entity, key=lambda entity: (-traffic.get(entity, 0), entity)):
        if len(kept) + len(of_entity[entity]) > most:
            break
        kept += of_entity[entity]
    return sorted(kept), total - len(kept)


def _entity(metric: Metric, series: Series) -> tuple[str, ...]:
    """Cluster, topic and group of the series; without these labels, all of its labels."""
    values = dict(zip(metric.labels, series.labels, strict=True))
    group = next((values[name] for name in _GROUPS if name in values), None)
    if group is None or "topic" not in values:
        return series.labels[:-1] if metric.kind == "summary" else series.labels
    return (values["cluster"], values["topic"], group)
