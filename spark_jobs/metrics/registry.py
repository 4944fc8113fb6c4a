"""All metrics. `make metrics` generates docs/metrics.md from them."""

from __future__ import annotations

from spark_jobs.metrics import lake, marts
from spark_jobs.metrics.metric import Metric

# Read in Airflow's web server (plugins/metrics_page.py), as nothing in `spark_jobs` imports Airflow.
RUN_DURATION = Metric(
    "run_duration_seconds",
    ("dag_id", "state"),
    "Duration of the last run of the DAG that ended in the state, `success` or `failed`.",
    "dag_run in Airflow's database",
    unit="seconds",
)
RUN_END = Metric(
    "run_end_timestamp_seconds",
    ("dag_id", "state"),
    "When the last run of the DAG that ended in the state, `success` or `failed`, ended.",
    "dag_run in Airflow's database",
    unit="seconds",
)
RUNS = (RUN_DURATION, RUN_END)

SOURCE_UP = Metric(
    "source_up",
    ("source",),
    "1 if the source, `marts`, `lake` or `airflow`, could be read, else 0: then its metrics have no series.",
    "this scrape",
)
SOURCE_READ = Metric(
    "source_read_timestamp_seconds",
    ("source",),
    "When the source was last read; the marts are read once per serving file.",
    "this scrape",
    unit="seconds",
)
SOURCE_DURATION = Metric(
    "source_read_duration_seconds",
    ("source",),
    "How long the last reading of the source took.",
    "this scrape",
    unit="seconds",
)
LEFT_OUT = Metric(
    "series_left_out",
    ("metric",),
    "Series of the metric that are not exposed, as it has more than `metrics.series`, or a label longer than 255 characters.",
    "this scrape",
)
OWN = (SOURCE_UP, SOURCE_READ, SOURCE_DURATION, LEFT_OUT)

METRICS: tuple[Metric, ...] = (*marts.METRICS, *lake.METRICS, *RUNS, *OWN)
