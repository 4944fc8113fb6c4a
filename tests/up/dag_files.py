"""DAGs of the tests, for an Airflow that `make up` runs."""

from __future__ import annotations

# One task waits for messages.
WAITING = """
from datetime import UTC, datetime, timedelta

from airflow.sdk import dag

from plugins.trace_sensor import TraceMessagesSensor


@dag(schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), is_paused_upon_creation=False)
def waiting() -> None:
    # Airflow fails a task whose trigger fires before the scheduler has seen that the task had deferred itself.
    again = {"retries": 2, "retry_delay": timedelta(seconds=1)}
    TraceMessagesSensor(task_id="new_messages", cluster="demo", poke_interval=1, **again)


waiting()
"""
# One of two mapped tasks fails until the file `mended` is there.
FRAGILE = """
from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag

from plugins.notifier import CALLBACKS


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    is_paused_upon_creation=False,
    default_args=CALLBACKS,
)
def fragile() -> None:
    BashOperator.partial(task_id="break", map_index_template="{{ task.env['NAME'] }}").expand(
        bash_command=["test $NAME != b || test -e %(mended)s"], env=[{"NAME": "a"}, {"NAME": "b"}]
    )


fragile()
"""
# Its task ends when the file `quick` is there at its start.
SLOW = """
from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag


@dag(schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), is_paused_upon_creation=False)
def slow() -> None:
    BashOperator(task_id="sleep", bash_command="test -e %(quick)s || sleep 1200")


slow()
"""
