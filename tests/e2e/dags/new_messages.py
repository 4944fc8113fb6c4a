"""Waits for trace messages that no extraction has read; `test_up.py` adds it to the project's DAGs."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import dag

from plugins.trace_messages import TraceMessagesSensor


@dag(schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False)
def new_messages() -> None:
    TraceMessagesSensor(task_id="wait", cluster="demo", poke_interval=1, timeout=600)


new_messages()
