"""What the demo shows at its end: the three marts as tables, and whether anything was lost.

It reads with pyiceberg, and counts records in the bodies in plain Python: the proof shares no code
with the Spark jobs that it is about.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from rich import box
from rich.console import Console
from rich.table import Table

from sandbox.record import record_types
from spark_jobs.catalog import lake, summary_with
from spark_jobs.ingest.positions import CHANGE_SEQ
from spark_jobs.settings import Settings
from spark_jobs.tables import EVENTS

# Wide enough for a row of a mart, whatever the terminal says: a wrapped table cannot be read.
_console = Console(width=140, highlight=False)

SUCCESS = ["consumer_group", "topic", "hour", "attempts", "succeeded", "exception"]
SUCCESS += ["returned_null", "failed", "timeout", "not_returned", "in_flight"]
LATENCY = ["topic", "producer_group", "hour", "sends", "succeeded", "p50_ms", "p90_ms", "p95_ms", "p99_ms"]
LATENCY += ["p999_ms", "max_ms"]
ORPHANS = ["cause", "is_orphan", "topic", "expected_group"]


def rows(settings: Settings, table: str, *columns: str, cluster: str | None = None) -> pa.Table:
    """A table of the lake, of one cluster or all; all columns when none is named."""
    condition = f"cluster == '{cluster}'" if cluster else AlwaysTrue()
    return lake(settings).load_table(table).scan(condition, selected_fields=columns or ("*",)).to_arrow()


def marts(settings: Settings) -> None:
    """Print the three marts that the project is named for, of every configured cluster."""
    if not summary_with(settings, EVENTS, CHANGE_SEQ).get(CHANGE_SEQ, "0").strip("0"):
        _console.print(
            "no trace records were read, so there are no marts yet: see that message trace is on in the clients "
            "(enableMsgTrace) and on a broker (traceTopicEnable=true), and that TOPIC names the trace topic"
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


def proof(
    settings: Settings, cluster: str, broker_offsets: dict[str, dict[str, dict[int, list[int]]]]
) -> dict[str, int]:
    """Count everything twice, by ways that share no code; print it, and return the counts.

    Args:
        settings: of the run.
        cluster: whose rows are counted.
        broker_offsets: topic to broker to queue to [min, max), from the official admin tool.

    Raises:
        SystemExit: something was lost or doubled.
    """
    in_broker = sum(
        high - low
        for brokers in broker_offsets.values()
        for qs in brokers.values()
        for low, high in qs.values()
    )
    raw = rows(settings, "raw.trace_messages", "trace_topic", "body", "body_error", cluster=cluster)
    in_bodies = sum(
        len(record_types(row["body"].decode(errors="replace"))) if row["body_error"] is None else 1
        for row in raw.to_pylist()
    )
    types = rows(settings, "events.trace_records", "record_type", cluster=cluster)["record_type"].to_pylist()
    counts = {
        "trace_messages_broker": in_broker,
        "raw_rows": raw.num_rows,
        "records": len(types),
        "valid": sum(1 for each in types if each != "Invalid"),
        "invalid": sum(1 for each in types if each == "Invalid"),
        "sends": rows(settings, "marts.fct_sends", "cluster", cluster=cluster).num_rows,
        "attempts": rows(settings, "marts.fct_consume_attempts", "cluster", cluster=cluster).num_rows,
        "deliveries": rows(settings, "marts.fct_deliveries", "cluster", cluster=cluster).num_rows,
        "orphans": sum(
            rows(settings, "marts.orphaned_messages", "is_orphan", cluster=cluster)["is_orphan"].to_pylist()
        ),
    }
    table, whole = comparison(
        [
            (
                *("trace messages, by the broker's offsets", in_broker),
                *("rows of lake.raw.trace_messages", raw.num_rows),
            ),
            (
                *("records, by the separators in the bodies", in_bodies),
                *("rows of lake.events.trace_records", len(types)),
            ),
        ]
    )
    _console.print(table)
    if not whole:
        raise SystemExit("messages or records were lost or doubled; `make demo` again reads what is missing")
    return counts


def comparison(pairs: list[tuple[str, int, str, int]]) -> tuple[Table, bool]:
    """What was counted at the source beside what is in the warehouse, and whether all of it is equal.

    Args:
        pairs: each what was counted there, how many, what was counted here, how many.
    """
    different = [left.partition(",")[0] for left, there, _, here in pairs if there != here]
    title = "every message and record is in the warehouse"
    if different:
        title = f"DIFFERENT: {' and '.join(different)}"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("counted by the source", "", "in the warehouse", "", ""):
        table.add_column(heading)
    for left, there, right, here in pairs:
        verdict = "[green]equal[/]" if there == here else "[bold red]DIFFERENT[/]"
        table.add_row(left, str(there), right, str(here), verdict)
    return table, not different


def summary(settings: Settings, counts: dict[str, int], seconds: float) -> None:
    """Write `$TRACE_HOME/demo/summary.json` and print it."""
    folder = settings.home / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    found = counts | {"seconds": round(seconds, 1)}
    (folder / "summary.json").write_text(json.dumps(found, indent=2) + "\n")
    _console.print(json.dumps(found), soft_wrap=True)
