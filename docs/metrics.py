"""Write docs/metrics.md from the definitions of the metrics and their settings; `make metrics` calls it."""

from __future__ import annotations

from spark_jobs.metrics import lake, marts
from spark_jobs.metrics.metric import Metric
from spark_jobs.metrics.registry import OWN, RUNS
from spark_jobs.settings import PROJECT, Metrics

PAGE = PROJECT / "docs" / "metrics.md"
HEAD = """# Metrics for Prometheus

Airflow's web server has a page for Prometheus, `/trace-warehouse/metrics`: what the published marts say, how far the pipeline is,
open alerts, results of checks, and durations of runs. It starts no Spark. `make metrics` generates this page from
`docs/metrics.py`, `spark_jobs/metrics/` and `spark_jobs/settings.py`; a test fails if it is out of date.

## Set up

The page has a token of its own: it opens no other page, and a login of Airflow does not open this one. Without a token the page
refuses every request with status 403 and says what to set.

```
(umask 077; openssl rand -hex 32 > var/metrics.token)
TRACE_METRICS__TOKEN_FILE=$PWD/var/metrics.token TRACE_SETTINGS=settings.toml make up
curl -H "Authorization: Bearer $(cat var/metrics.token)" http://127.0.0.1:8080/trace-warehouse/metrics
```

Give Prometheus the same file. `deploy/prometheus/prometheus.yml` is an example of its configuration, and
`deploy/prometheus/rules.yml` has alert rules; `promtool test rules deploy/prometheus/rules_test.yml` tests them. A token that was
replaced in the file counts from the next scrape on. The page has names of topics, groups, clusters and objectives, but no
message, key or client. Outside loopback, put the web server behind TLS, since the token is in each request.

The format is OpenMetrics 1.0. A client that accepts `text/plain` but not OpenMetrics gets Prometheus' text format.

**Settings** (section `metrics`):

| setting | meaning |
| --- | --- |
"""
WINDOWS = """
## Windows

Numbers of the marts are gauges of one of two windows, the label `window`, per cluster:

- `hour`: the last complete hour, which is the last one whose end the watermark has passed by the grace
  ([definitions](definitions.md)). Its values are those of the row of the hourly mart.
- `day`: from midnight UTC of the watermark's day to the watermark. Its values are those of the row of the mart by day; the last
  minutes are incomplete.

`rocketmq_trace_window_start_timestamp_seconds` and `rocketmq_trace_window_end_timestamp_seconds` say when these are.

They are gauges, not counters: a later record can change the outcome of an attempt, and a window moves on. So read them as they
are, without `rate()`; add up numerators and denominators, never ratios or quantiles.

A label is empty where the mart has NULL: `topic` of a message without a Pub, `consumer_group` of a message that no group was
expected to consume.

## Age

Prometheus stamps a sample with the time of the scrape, but its data is older. The age of the marts is
`time() - rocketmq_trace_complete_to_timestamp_seconds{stage="marts"}`, that of the end of a window
`time() - rocketmq_trace_window_end_timestamp_seconds`. The metrics of the marts come from the serving file, which a publication
replaces; `rocketmq_trace_serving_file_built_timestamp_seconds` is its age. Those of the lake and of Airflow are as of the last
reading, at most `refresh_seconds` ago, so they show a pipeline that no longer publishes.

If a source cannot be read, its metrics are missing, `rocketmq_trace_source_up` is 0, and the log of the web server has the
reason.

## Number of series

A metric has at most `metrics.series` series. If there are more, the topics and groups with the most messages of the last seven
days keep all of their series, and the others have none; `rocketmq_trace_series_left_out` counts what is missing. A label longer
than 255 characters is left out, too: RocketMQ allows no such name, but a trace can have any text.

A scrape returns kept text, and reads a source only when it is due: `rocketmq_trace_source_read_duration_seconds` is how long that
took. On the data of `make demo` (426 series), with two cores that other tests kept busy, a scrape took 15 ms where nothing was
read, and 1 s where all three sources were; `tests/e2e/test_metrics.py` prints these figures.
"""
SECTIONS: tuple[tuple[str, tuple[Metric, ...]], ...] = (
    ("Of the marts", marts.METRICS),
    ("Of the lake", lake.METRICS),
    ("Of Airflow's runs", RUNS),
    ("Of the scrape", OWN),
)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _settings() -> str:
    found = ""
    for name, field in Metrics.model_fields.items():
        default = "" if field.default is None else f" ({field.default:,})"
        found += f"| `{name}`{default} | {_cell(field.description or '')} |\n"
    return found


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
    cells = (f"`{metric.full_name}`", metric.kind, metric.unit or "-", labels, metric.meaning, metric.source)
    return f"| {' | '.join(map(_cell, cells))} |\n"


def render() -> str:
    """The whole page."""
    page = HEAD + _settings() + WINDOWS
    for title, metrics in SECTIONS:
        page += f"\n## {title}\n\n| metric | type | unit | labels | meaning | source |\n| --- | --- | --- | --- | --- | --- |\n"
        page += "".join(map(_row, metrics))
    return page


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"wrote {PAGE.relative_to(PROJECT)}")
