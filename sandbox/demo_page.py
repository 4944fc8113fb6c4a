"""The three marts of `make demo` as charts: one HTML page that needs no other file and no network."""

from __future__ import annotations

from html import escape
from pathlib import Path

import duckdb
import plotly.graph_objects as go

from spark_jobs.serving.contents import current_file
from spark_jobs.settings import Settings

FILE = "demo.html"
_OUTCOMES = ("succeeded", "failed", "exception", "returned_null", "timeout", "not_returned", "in_flight")
_PERCENTILES = (0.5, 0.9, 0.99)
_HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }}</style>
<h1>{title}</h1>
<p>{text}</p>
"""


def write(settings: Settings) -> Path:
    """Write the page of the published marts below `TRACE_HOME`; return its path.

    Raises:
        ServingFileError: nothing is published yet.
    """
    with duckdb.connect(current_file(settings), read_only=True) as connection:
        charts = {
            "Attempts by consumer group and outcome: lake.marts.consumer_group_success": _success(connection),
            "Duration of sends by topic, ms: lake.marts.send_latency": _latency(connection),
            "Messages without consumption, by cause: lake.marts.orphaned_messages": _orphans(connection),
        }
        ((clusters, complete_to),) = connection.execute(
            "select string_agg(cluster, ', ' order by cluster), min(complete_to) from serving.watermarks"
        ).fetchall()
    text = f"Cluster {clusters}; traces are complete up to {complete_to:%Y-%m-%d %H:%M:%S} UTC."
    parts = [_HEAD.format(title="RocketMQ traces: the demo's marts", text=escape(text))]
    for number, (title, figure) in enumerate(charts.items()):
        figure.update_layout(height=380, margin={"t": 10}, template="plotly_white", legend_title=None)
        # The first chart carries the library.
        body = figure.to_html(full_html=False, include_plotlyjs=not number)
        parts.append(f"<h2>{escape(title)}</h2>\n{body}\n")
    page = settings.home / FILE
    page.write_text("".join(parts) + "</html>\n")
    return page


def _success(connection: duckdb.DuckDBPyConnection) -> go.Figure:
    sums = ", ".join(f"sum({name})::bigint" for name in _OUTCOMES)
    rows = connection.execute(
        f"select consumer_group, {sums} from marts.consumer_group_success group by 1 order by 1"
    ).fetchall()
    columns = list(zip(*rows, strict=True))
    figure = go.Figure()
    for name, values in zip(_OUTCOMES, columns[1:], strict=True):
        if any(values):
            figure.add_bar(name=name.replace("_", " "), x=columns[0], y=values)
    return figure.update_layout(barmode="stack", yaxis_title="attempts")


def _latency(connection: duckdb.DuckDBPyConnection) -> go.Figure:
    columns = ", ".join(f"percentile_ms(histogram, max_ms, {p})" for p in _PERCENTILES)
    rows = connection.execute(
        f"select topic, {columns} from marts.send_latency group by 1 order by 1"
    ).fetchall()
    values = list(zip(*rows, strict=True))
    figure = go.Figure()
    for percentile, of_topics in zip(_PERCENTILES, values[1:], strict=True):
        figure.add_bar(name=f"p{percentile * 100:g}", x=values[0], y=of_topics)
    return figure.update_layout(barmode="group", yaxis_title="ms")


def _orphans(connection: duckdb.DuckDBPyConnection) -> go.Figure:
    rows = connection.execute(
        "select cause, is_orphan, count(*) from marts.orphaned_messages group by all order by 3, 1"
    ).fetchall()
    figure = go.Figure()
    for is_orphan, name, colour in ((True, "orphans", "#b3261e"), (False, "explained", "#9aa0a6")):
        of_kind = [row for row in rows if row[1] == is_orphan]
        y, x = [row[0] for row in of_kind], [row[2] for row in of_kind]
        figure.add_bar(name=name, orientation="h", y=y, x=x, marker_color=colour)
    return figure.update_layout(barmode="stack", xaxis_title="messages and expected groups")
