"""The percentiles that the durations of a message are compared with."""

from __future__ import annotations

from datetime import datetime

from spark_jobs.lookup.life import Duration, Usual
from spark_jobs.lookup.reader import Reader

# Mart to its key besides cluster and hour, and what it counts.
_MARTS = {
    "marts.send_latency": (("topic", "producer_group"), "sends of {producer_group} to {topic}"),
    "marts.queue_wait": (("consumer_group", "topic"), "first attempts of {consumer_group} on {topic}"),
    "marts.consume_latency": (("consumer_group", "topic"), "attempts of {consumer_group} on {topic}"),
    "marts.end_to_end_latency": (("consumer_group", "topic"), "deliveries to {consumer_group} on {topic}"),
}


def _unknown(name: str) -> str:
    return "an unknown topic" if name == "topic" else "an unknown group"


class Percentiles:
    """The percentiles of the given hours of a cluster; each mart is read once."""

    def __init__(self, reader: Reader, cluster: str, hours: list[datetime]):
        self._found: dict[tuple[object, ...], Usual] = {}
        for mart, (key, of) in _MARTS.items():
            columns = ", ".join(("hour", *key, "p50_ms", "p99_ms", "latency_count"))
            rows = reader.rows(
                mart, hours, "cluster = $cluster and latency_count > 0", columns, cluster=cluster
            )
            for row in rows:
                names = {name: row[name] if row[name] is not None else _unknown(name) for name in key}
                self._found[mart, row["hour"], *(row[name] for name in key)] = Usual(
                    row["p50_ms"], row["p99_ms"], row["latency_count"], of.format(**names)
                )

    def duration(
        self, mart: str, ms: float | None, hour: datetime | None, *key: str | None
    ) -> Duration | None:
        """A duration beside the usual one.

        Args:
            mart: `send_latency`, `queue_wait`, `consume_latency` or `end_to_end_latency`.
            ms: the duration; None gives None.
            hour: of the row.
            key: topic and producer group of `send_latency`; consumer group and topic of the others.
        """
        if ms is None:
            return None
        return Duration(ms, self._found.get((f"marts.{mart}", hour, *key)))
