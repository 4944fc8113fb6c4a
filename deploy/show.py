"""Print three marts at the end of `make run` and `make demo`, read with pyiceberg."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from rich import box
from rich.console import Console
from rich.table import Table

from spark_jobs.lake.catalog import lake, summary_with
from spark_jobs.lake.offsets import CHANGE_SEQ
from spark_jobs.lake.tables import EVENTS
from spark_jobs.settings import Settings

# Wide enough for a row of a mart: a wrapped table cannot be read.
_console = Console(width=140, highlight=False)

SUCCESS = ["consumer_group", "topic", "hour", "attempts", "succeeded", "exception"]
SUCCESS += ["returned_null", "failed", "timeout", "not_returned", "in_flight"]
LATENCY = ["topic", "producer_group", "hour", "sends", "succeeded", "p50_ms", "p90_ms", "p95_ms", "p99_ms"]
LATENCY += ["p999_ms", "max_ms"]
ORPHANS = ["cause", "is_orphan", "topic", "expected_group"]


def rows(settings: Settings, table: str, *columns: str, cluster: str | None = None) -> pa.Table:
    """A table of the lake, of one cluster or of all, with the named columns or all."""
    condition = f"cluster == '{cluster}'" if cluster else AlwaysTrue()
    return lake(settings).load_table(table).scan(condition, selected_fields=columns or ("*",)).to_arrow()


def marts(settings: Settings) -> None:
    """Print consume success, send latency and orphans of every configured cluster."""
    if not summary_with(settings, EVENTS, CHANGE_SEQ).get(CHANGE_SEQ, "0").strip("0"):
        _console.print(
            "no trace records were read, so there are no marts yet. Check that message trace is on in the clients "
            "(enableMsgTrace) and on a broker (traceTopicEnable=true), and that TOPIC is the trace topic"
        )
        return
    try:
        for cluster in settings.clusters:
            _marts_of(settings, cluster.name)
    except NoSuchTableError:
        _console.print("no marts are published yet")


def _marts_of(settings: Settings, cluster: str) -> None:
    success = rows(settings, "marts.consumer_group_success", *SUCCESS, cluster=cluster).select(SUCCESS)
    _print_rows(
        f"{cluster}: consume success per consumer group and hour: lake.marts.consumer_group_success", success
    )
    latency = rows(settings, "marts.send_latency", *LATENCY, cluster=cluster).select(LATENCY)
    _print_rows(
        f"{cluster}: send latency per topic, producer group and hour, ms: lake.marts.send_latency", latency
    )
    orphans = rows(settings, "marts.orphaned_messages", *ORPHANS, "msg_id", cluster=cluster)
    by_cause = (
        orphans.group_by(ORPHANS).aggregate([("msg_id", "count")]).rename_columns([*ORPHANS, "messages"])
    )
    _print_rows(f"{cluster}: orphaned messages by cause: lake.marts.orphaned_messages", by_cause)


def _print_rows(title: str, data: pa.Table) -> None:
    cells = {name: [_text(value) for value in data[name].to_pylist()] for name in data.column_names}
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for field in data.schema:
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        # Headings wrap between their words, values do not.
        heading = field.name.replace("_", " ")
        table.add_column(
            heading,
            justify="right" if numeric else "left",
            min_width=max(map(len, [*heading.split(), *cells[field.name]])),
        )
    for row in sorted(zip(*cells.values(), strict=True)):
        table.add_row(*row)
    _console.print(table)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}".rstrip("0").rstrip(".") if math.isfinite(value) else str(value)
    return f"{value:%m-%d %H:%M}" if hasattr(value, "strftime") else str(value)
