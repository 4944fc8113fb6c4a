"""The three published marts that name suspects, as dbt makes them, with rows for messages that a test has sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import yaml
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyspark.sql import SparkSession

from spark_jobs.settings import PROJECT

FACTS = PROJECT / "dbt_project" / "models" / "marts" / "facts"


def make(spark: SparkSession) -> None:
    """Create the marts, empty, with the columns of their models."""
    for name in ("orphaned_messages", "fct_deliveries", "fct_sends"):
        (model,) = yaml.safe_load((FACTS / f"{name}.yml").read_text())["models"]
        columns = ", ".join(f"{column['name']} {column['data_type']}" for column in model["columns"])
        spark.sql(
            f"create table if not exists lake.marts.{name} ({columns}) using iceberg partitioned by (hour)"
        )


def suspect(
    sent: dict[str, Any],
    topic: str,
    group: str | None,
    tag: str | None = "a",
    *,
    is_traced: bool = True,
    **row: Any,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """A row of `orphaned_messages`, with the values of `row`, and the one of `fct_sends` if its send names the broker's id."""
    at = row.pop("published_at", datetime.fromtimestamp(sent["sent_at"], UTC))
    hour = at.replace(minute=0, second=0, microsecond=0)
    of_both = {"topic": topic, "msg_id": sent["msg_id"], "hour": hour}
    orphan = {
        **of_both,
        "expected_group": group,
        "tags": tag,
        "published_at": at,
        "cause": "filtered_or_lost",
        "is_orphan": True,
        **row,
    }
    send = {**of_both, "sent_at": at, "offset_msg_id": sent["offset_msg_id"], "is_send_ok": True}
    return orphan, send if is_traced else None


def failed(sent: dict[str, Any], topic: str, group: str, **row: Any) -> dict[str, Any]:
    """A row of `fct_deliveries`, with the values of `row`; that of the send is in `suspect`."""
    at = datetime.fromtimestamp(sent["sent_at"], UTC)
    return {
        "topic": topic,
        "msg_id": sent["msg_id"],
        "consumer_group": group,
        "is_broadcast": False,
        "outcome": "exhausted",
        "published_at": at,
        "hour": at.replace(minute=0, second=0, microsecond=0),
        **row,
    }


def publish_deliveries(catalog: Catalog, cluster: str, rows: list[dict[str, Any]]) -> None:
    """Append rows to `fct_deliveries`."""
    _append(catalog, cluster, "fct_deliveries", rows)


def publish(
    catalog: Catalog, cluster: str, suspects: list[tuple[dict[str, Any], dict[str, Any] | None]]
) -> None:
    """Append the rows to the marts."""
    orphans = [orphan for orphan, _ in suspects]
    sends = [send for _, send in suspects if send]
    for name, rows in (("orphaned_messages", orphans), ("fct_sends", sends)):
        _append(catalog, cluster, name, rows)


def _append(catalog: Catalog, cluster: str, name: str, rows: list[dict[str, Any]]) -> None:
    table = catalog.load_table(f"marts.{name}")
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    table.append(pa.Table.from_pylist([{"cluster": cluster, **row} for row in rows], schema=schema))
