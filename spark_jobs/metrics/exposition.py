"""The text that Prometheus scrapes, by prometheus_client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, exposition
from prometheus_client import Metric as Family
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from spark_jobs.metrics.metric import Found

_END = b"# EOF\n"


class Families(Collector):
    """What `prometheus_client` collects: a family per metric."""

    def __init__(self, found: Found):
        self.found = found

    def collect(self) -> Iterator[Family]:
        for metric, series in self.found.items():
            family = Family(metric.family, metric.meaning, metric.kind, metric.unit)
            for each in series:
                labels: Mapping[str, str] = dict(zip(metric.labels, each.labels, strict=True))
                family.add_sample(metric.full_name, dict(labels), each.value)
            yield family


def text(found: Found, open_metrics: bool) -> bytes:
    """The metrics in OpenMetrics 1.0 without its last line, or in Prometheus' text format 0.0.4."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(found))
    if open_metrics:
        return openmetrics.generate_latest(registry).removesuffix(_END)
    return exposition.generate_latest(registry)


def page(parts: Iterable[bytes], open_metrics: bool) -> tuple[bytes, str]:
    """The whole answer, from texts of different metrics, and its content type."""
    body = b"".join(parts)
    if open_metrics:
        return body + _END, openmetrics.CONTENT_TYPE_LATEST
    return body, exposition.CONTENT_TYPE_PLAIN_0_0_4
