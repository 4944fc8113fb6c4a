"""The proof at the end of `make demo`: messages and records, counted at the source and in the warehouse.

It reads with pyiceberg and counts records in the bodies in plain Python: it shares no code with the Spark jobs.
"""

from __future__ import annotations

import json

from rich import box
from rich.console import Console
from rich.table import Table

from deploy.show import rows
from sandbox.record import record_types
from spark_jobs.settings import Settings

_console = Console(width=140, highlight=False)


def proof(
    settings: Settings, cluster: str, broker_offsets: dict[str, dict[str, dict[int, list[int]]]]
) -> dict[str, int]:
    """Count messages and records in two ways that share no code; print and return the counts.

    Args:
        settings: of the run.
        cluster: name of the cluster.
        broker_offsets: topic to broker to queue to [min, max), from the official admin tool.

    Raises:
        SystemExit: something was lost or duplicated.
    """
    stored = sum(
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
        "trace_messages_broker": stored,
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
    pairs = [
        ("trace messages, by the broker's offsets", stored, "rows of lake.raw.trace_messages", raw.num_rows),
        (
            "records, by the separators in the bodies",
            in_bodies,
            "rows of lake.events.trace_records",
            len(types),
        ),
    ]
    table, whole = comparison(pairs)
    _console.print(table)
    if not whole:
        raise SystemExit(
            "messages or records were lost or duplicated; run `make demo` again to read missing ones"
        )
    return counts


def comparison(pairs: list[tuple[str, int, str, int]]) -> tuple[Table, bool]:
    """A table of the counts of the source and of the warehouse, and whether all of them are equal.

    Args:
        pairs: each the name and count at the source, and the name and count in the warehouse.
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
