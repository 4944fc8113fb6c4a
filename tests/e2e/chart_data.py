"""What a chart must show: its YAML file as SQL on the file of the dashboards, independently of Superset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb

from deploy.dashboards.assets import Chart, Dataset

Rows = list[dict[str, Any]]
_GRAINS = {"PT1H": "hour", "P1D": "day"}
_EPOCH = datetime(1970, 1, 1)


def problems(connection: duckdb.DuckDBPyConnection, chart: Chart, dataset: Dataset, shown: Rows) -> list[str]:
    """How the data that Superset returned for a chart differ from those of the file; empty if they are equal.

    Args:
        connection: to the file of the dashboards.
        chart: without filters of a dashboard, or with filters that all rows pass.
        dataset: of the chart.
        shown: the rows of Superset's answer.
    """
    expected = rows(connection, chart, dataset)
    wanted, given = _values(chart, expected), _values(chart, shown, is_pivoted=_is_pivoted(chart))
    lines = []
    if "limit" in chart.params:
        series = {line for _, line, _ in given}
        lines += _wrong_series(connection, chart, dataset, series)
        wanted = Counter({point: count for point, count in wanted.items() if point[1] in series})
    limit = min(int(chart.params.get("row_limit", len(expected))), len(expected))
    lines += [f"it shows {cell}, which is not in the file" for cell in sorted(map(str, given - wanted))]
    if limit == len(expected):
        lines += [f"it does not show {cell}" for cell in sorted(map(str, wanted - given))]
    elif len(shown) != limit:
        lines.append(f"it shows {len(shown)} rows of {len(expected)}, not {limit}")
    return lines


def is_flat(chart: Chart, shown: Rows) -> bool:
    """Whether all numbers of a metric are zero, or the same in at least three rows or points."""
    if "query_mode" in chart.params and chart.params["query_mode"] == "raw":
        return False
    numbers: dict[str, list[float]] = {}
    for row in shown:
        for name, value in row.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool) and name not in _axes(chart):
                numbers.setdefault("" if _is_pivoted(chart) else name, []).append(value)
    return not numbers or all(
        not any(values) or (len(values) > 2 and len(set(values)) == 1) for values in numbers.values()
    )


def rows(connection: duckdb.DuckDBPyConnection, chart: Chart, dataset: Dataset) -> Rows:
    """The rows of the chart's query, all of them."""
    params = chart.params
    columns = {name: _expression(dataset, name) for name in [*_groups(chart), *params.get("all_columns", [])]}
    if "x_axis" in params:
        columns[params["x_axis"]] = f"date_trunc('{_GRAINS[params['time_grain_sqla']]}', {params['x_axis']})"
    return _aggregated(connection, chart, dataset, columns)


def _aggregated(
    connection: duckdb.DuckDBPyConnection, chart: Chart, dataset: Dataset, columns: dict[str, str]
) -> Rows:
    """The metrics of the chart by the columns, which are named expressions."""
    columns = columns | {name: dataset.metrics[name].expression for name in _metrics(chart)}
    where = [
        f"\"{each['subject']}\" = '{each['comparator']}'" for each in chart.params.get("adhoc_filters", [])
    ]
    selected = [f'{expression} as "{name}"' for name, expression in columns.items()]
    found = connection.execute(
        f"select {', '.join(selected)} "
        f"from {dataset.schema_name}.{dataset.table_name} where {' and '.join(where) or 'true'} "
        f"{'group by all' if _metrics(chart) and len(columns) > len(_metrics(chart)) else ''}"
    ).fetchall()
    return [dict(zip(columns, row, strict=True)) for row in found]


def _wrong_series(
    connection: duckdb.DuckDBPyConnection, chart: Chart, dataset: Dataset, series: set[str]
) -> list[str]:
    """A chart with a limit shows the series that rank first by the metric over the whole time; equal ones in any order."""
    (metric,) = _metrics(chart)
    groups = {name: _expression(dataset, name) for name in _groups(chart)}
    totals = {
        _series(chart, row): _plain(row[metric])
        for row in _aggregated(connection, chart, dataset, groups)
        if row[metric] is not None
    }
    first = sorted(totals.values(), reverse=chart.params.get("order_desc", True))[: chart.params["limit"]]
    if sorted(first) == sorted(totals[name] for name in series):
        return []
    return [f"it shows {sorted(series)}, which do not rank first in {totals}"]


def _series(chart: Chart, row: dict[str, Any]) -> str:
    return ", ".join(str(_plain(row[name])) for name in _groups(chart))


def _metrics(chart: Chart) -> list[str]:
    return [chart.params["metric"]] if "metric" in chart.params else chart.params.get("metrics", [])


def _groups(chart: Chart) -> list[str]:
    groups = chart.params.get("groupby", [])
    return [groups] if isinstance(groups, str) else groups


def _axes(chart: Chart) -> list[str]:
    return [chart.params["x_axis"]] if "x_axis" in chart.params else []


def _is_pivoted(chart: Chart) -> bool:
    """Whether Superset returns one column per line of the chart."""
    return chart.viz_type.startswith("echarts_timeseries")


def _expression(dataset: Dataset, name: str) -> str:
    return dataset.calculated[name].expression if name in dataset.calculated else f'"{name}"'


def _values(chart: Chart, found: Rows, is_pivoted: bool = False) -> Counter[tuple]:
    """Rows as tuples; of a chart of lines each point as (time, line, value)."""
    if not _is_pivoted(chart):
        names = [*_groups(chart), *chart.params.get("all_columns", []), *_axes(chart), *_metrics(chart)]
        return Counter(tuple(_plain(row[name]) for name in names) for row in found)
    (axis,) = _axes(chart)
    points: Counter[tuple] = Counter()
    for row in found:
        if is_pivoted:
            lines = {name: value for name, value in row.items() if name != axis}
        else:
            lines = {_series(chart, row) or name: row[name] for name in _metrics(chart)}
        points.update(
            (_plain(row[axis]), line, _plain(value)) for line, value in lines.items() if value is not None
        )
    return points


def _plain(value: Any) -> Any:
    """A value as Superset's JSON has it; times are ms, and numbers have the digits that survive the way."""
    if isinstance(value, datetime):
        return (value - _EPOCH).total_seconds() * 1000
    if isinstance(value, date):
        return _plain(datetime(value.year, value.month, value.day))
    if isinstance(value, (Decimal, float)) or (isinstance(value, int) and not isinstance(value, bool)):
        return float(f"{float(value):.9g}") if abs(float(value)) < 1e11 else float(value)
    return list(map(_plain, value)) if isinstance(value, Sequence) and not isinstance(value, str) else value
