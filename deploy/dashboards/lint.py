"""Check the files of `dashboards/` against the dbt project: dashboard, chart, dataset, model, column, exposure.

Each chart's query is planned by DuckDB on empty tables with the columns of the dbt project, so a column or function that does
not exist is found.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb
import yaml

from deploy.dashboards import assets
from deploy.dashboards.assets import FOLDER, AssetError, Assets, Chart, Dataset
from deploy.dashboards.columns import MODELS, OF_THE_FILE, all_tables
from deploy.dashboards.roles import read_roles
from spark_jobs.serving import build
from spark_jobs.serving.files import WITHOUT


def problems(found: Assets) -> list[str]:
    """One line per problem."""
    lines = []
    with duckdb.connect() as connection:
        create_tables(connection)
        for name, dataset in found.datasets.items():
            lines += _of_dataset(connection, f"datasets/{name}.yaml", dataset)
        for name, chart in found.charts.items():
            lines += _of_chart(connection, f"charts/{name}.yaml", chart, found.datasets[chart.dataset])
        for name, dashboard in found.dashboards.items():
            for each in dashboard.filters:
                if each.type == "select" and each.dataset:
                    dataset = found.datasets[each.dataset]
                    lines += _plan(
                        connection,
                        f"dashboards/{name}.yaml: filter {each.name}",
                        dataset,
                        [_expression(dataset, each.column)],
                    )
    used = {cell.chart for each in found.dashboards.values() for row in each.rows for cell in row}
    lines += [f"charts/{name}.yaml: no dashboard shows it" for name in found.charts.keys() - used]
    shown = {chart.dataset for chart in found.charts.values()}
    lines += [f"datasets/{name}.yaml: no chart uses it" for name in found.datasets.keys() - shown]
    return sorted(lines) + _of_exposures(found)


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """The tables of the dashboards' file, empty."""
    connection.execute(build.TABLES)
    for (schema, table), of in all_tables().items():
        if (schema, table) not in OF_THE_FILE:
            columns = ", ".join(f'"{c.name}" {c.type}' for c in of.columns if c.name not in WITHOUT)
            connection.execute(f"create table {schema}.{table} ({columns})")
    connection.execute(build.FUNCTIONS.read_text())
    connection.execute(build.PACKED_HISTOGRAMS.read_text())
    connection.execute(build.VIEWS.read_text())


def _of_dataset(connection: duckdb.DuckDBPyConnection, file: str, dataset: Dataset) -> list[str]:
    if (dataset.schema_name, dataset.table_name) not in all_tables():
        return [f"{file}: dbt has no table {dataset.schema_name}.{dataset.table_name}"]
    lines = []
    if dataset.main_dttm_col:
        lines += _plan(connection, f"{file}: main_dttm_col", dataset, [f'"{dataset.main_dttm_col}"'])
    for name, metric in dataset.metrics.items():
        lines += _plan(connection, f"{file}: metric {name}", dataset, [metric.expression])
    for name, column in dataset.calculated.items():
        lines += _plan(connection, f"{file}: column {name}", dataset, [column.expression])
    return lines


def _of_chart(connection: duckdb.DuckDBPyConnection, file: str, chart: Chart, dataset: Dataset) -> list[str]:
    params = chart.params
    metrics = [params["metric"]] if "metric" in params else params.get("metrics", [])
    lines = [
        f"{file}: dataset {chart.dataset} has no metric {name}"
        for name in metrics
        if name not in dataset.metrics
    ]
    lines += [
        f"{file}: conditional_formatting of {each['column']}, which it does not show"
        for each in params.get("conditional_formatting", [])
        if each["column"] not in metrics
    ]
    groups = params.get("groupby", [])
    columns = [*([groups] if isinstance(groups, str) else groups), *params.get("all_columns", [])]
    columns += [params["x_axis"]] if "x_axis" in params else []
    columns += [each["subject"] for each in params.get("adhoc_filters", [])]
    columns = [name for name in columns if name not in dataset.calculated]
    if columns:
        lines += _plan(connection, f"{file}: columns", dataset, [f'"{name}"' for name in columns])
    if not chart.description:
        lines.append(f"{file}: no description")
    return lines


def _expression(dataset: Dataset, column: str | None) -> str:
    calculated = dataset.calculated.get(column or "")
    return calculated.expression if calculated else f'"{column}"'


def _plan(
    connection: duckdb.DuckDBPyConnection, where: str, dataset: Dataset, expressions: list[str]
) -> list[str]:
    try:
        connection.execute(
            f"explain select {', '.join(expressions)} from {dataset.schema_name}.{dataset.table_name}"
        )
    except duckdb.Error as error:
        return [f"{where}: {str(error).splitlines()[0]}"]
    return []


def _of_exposures(found: Assets) -> list[str]:
    """Each dashboard is an exposure `dashboard_<name>` with an owner and the models that it shows, and the reverse."""
    given: list[dict[str, Any]] = yaml.safe_load((MODELS / "exposures.yml").read_text())["exposures"]
    exposures = {each["name"]: each for each in given if each["type"] == "dashboard"}
    lines = []
    for name, dashboard in found.dashboards.items():
        exposure = exposures.pop(f"dashboard_{name}", None)
        if exposure is None:
            lines.append(f"dashboards/{name}.yaml: exposures.yml has no dashboard_{name}")
            continue
        if not exposure.get("owner", {}).get("name"):
            lines.append(f"exposures.yml: dashboard_{name} has no owner")
        charts = {cell.chart for row in dashboard.rows for cell in row if cell.chart}
        datasets = {found.charts[chart].dataset for chart in charts}
        shown = {models_of(found.datasets[each]) for each in datasets} - {None}
        stated = set(exposure["depends_on"])
        lines += [f"exposures.yml: dashboard_{name} lacks {each}" for each in sorted(shown - stated)]  # type: ignore[type-var]
        lines += [f"exposures.yml: dashboard_{name} does not show {each}" for each in sorted(stated - shown)]
    return lines + [f"exposures.yml: there is no dashboard for {name}" for name in exposures]


def models_of(dataset: Dataset) -> str | None:
    """The dbt reference of a dataset; None for a table of the serving file itself."""
    if dataset.schema_name == "ops":
        return f"source('ops', '{dataset.table_name}')"
    if dataset.schema_name != "marts":
        return None
    table = {"send_latency_distribution": "send_latency"}.get(dataset.table_name, dataset.table_name)
    return f"ref('{table}')"


def main(folder: Path = FOLDER) -> int:
    try:
        lines = problems(assets.read(folder))
        read_roles(folder)
    except AssetError as error:
        lines = [str(error)]
    print("\n".join(lines) or "dashboards: no problems", file=sys.stderr if lines else sys.stdout)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
