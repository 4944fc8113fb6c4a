"""The check results of the run of `world`, and the alert of a task that fails and then succeeds."""

from __future__ import annotations

import subprocess

from deploy import show

DAG = """
from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag

from plugins.notifier import CALLBACKS


@dag(schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), default_args=CALLBACKS)
def fragile() -> None:
    BashOperator.partial(task_id="break", map_index_template="{{ task.env['NAME'] }}").expand(
        bash_command=["test $NAME != b || test -e %(mended)s"], env=[{"NAME": "a"}, {"NAME": "b"}]
    )


fragile()
"""


def test_the_checks_of_the_pipeline_passed(world):
    """After the runs of `world`: everything but what the traffic does on purpose."""
    results = show.rows(world.settings, "ops.check_results").to_pylist()
    assert {r["check"] for r in results} >= {
        *(
            "offsets_contiguous",
            "raw_offsets_match_data",
            "events_offsets_match_data",
            "raw_is_in_events",
            "ingest_gaps",
        ),
        *("body_errors", "invalid_rate", "dbt_tests", "row_count_drop", "unknown_layouts", "completeness"),
        *("clock_skew", "duplicate_rate", "orphan_rate", "group_silent", "slo_burn_page", "slo_burn_ticket"),
    }
    failed = {r["check"] for r in results if r["passed"] is False and r["class"] != "messaging"}
    assert failed == set()


def test_a_failed_task_is_an_alert_until_it_succeeds(world, tmp_path):
    mended, dags = tmp_path / "mended", tmp_path / "dags"
    dags.mkdir()
    (dags / "fragile.py").write_text(DAG % {"mended": mended})
    environment = world.environment | {"AIRFLOW__CORE__DAGS_FOLDER": str(dags)}

    def alerts() -> list[dict]:
        """Of this DAG's tasks, after another run of it."""
        command = ["airflow", "dags", "test", "fragile"]
        subprocess.run(command, env=environment, capture_output=True, check=False, timeout=300)
        rows = show.rows(world.settings, "ops.alerts").to_pylist()
        return [row for row in rows if row["check"] == "task_failed" and "fragile" in row["entity"]]

    (alert,) = alerts()
    assert (alert["entity"], alert["state"]) == ("fragile/break/b", "open")
    assert (alert["route"], alert["runbook_url"]) == ("pipeline", "docs/runbooks/task_failed.md")
    mended.touch()
    assert [(row["entity"], row["state"]) for row in alerts()] == [("fragile/break/b", "resolved")]
