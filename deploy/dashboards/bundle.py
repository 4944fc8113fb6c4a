"""Superset's import format (version 1.0.0) from the files of `dashboards/`."""

from __future__ import annotations

import json
from typing import Any

import yaml

from deploy.dashboards.assets import Assets, Cell, Chart, Dashboard, Dataset, Filter, uuid_of
from deploy.dashboards.columns import Column, columns_of
from deploy.dashboards.notes import notes
from spark_jobs.serving.files import WITHOUT

VERSION = "1.0.0"
# DuckDB opens the file read-only, reads no other file, and takes no other settings. The connections of a process to one file
# share one instance of DuckDB, with its threads and memory; by default that may take 80 % of the machine's memory.
ENGINE_PARAMS = {
    "connect_args": {
        "read_only": True,
        "config": {
            "enable_external_access": "false",
            "lock_configuration": "true",
            "threads": "2",
            "memory_limit": "2GB",
        },
    }
}


def bundle(assets: Assets, uri: str) -> dict[str, str]:
    """The files of a bundle, path to text, with ids that are stable.

    Args:
        assets: the files.
        uri: SQLAlchemy address of the database.
    """
    files: dict[str, Any] = {
        "metadata.yaml": {"version": VERSION, "type": "assets", "timestamp": "2026-01-01T00:00:00+00:00"}
    }
    for name, database in assets.databases.items():
        files[f"databases/{name}.yaml"] = {
            "database_name": database.database_name,
            "sqlalchemy_uri": uri,
            "cache_timeout": None,
            "expose_in_sqllab": True,
            "allow_run_async": False,
            "allow_ctas": False,
            "allow_cvas": False,
            "allow_dml": False,
            "allow_csv_upload": False,
            "extra": {"allows_virtual_table_explore": True, "engine_params": ENGINE_PARAMS},
            "uuid": uuid_of("databases", name),
            "version": VERSION,
        }
    for name, dataset in assets.datasets.items():
        files[f"datasets/{dataset.database}/{name}.yaml"] = _dataset(name, dataset)
    for name, chart in assets.charts.items():
        files[f"charts/{name}.yaml"] = {
            "slice_name": chart.slice_name,
            "description": chart.description,
            "viz_type": chart.viz_type,
            "params": _params(chart, assets.datasets[chart.dataset]),
            "cache_timeout": None,
            "uuid": uuid_of("charts", name),
            "version": VERSION,
            "dataset_uuid": uuid_of("datasets", chart.dataset),
        }
    numbers = {name: number for number, name in enumerate(assets.charts, start=1)}
    for name, dashboard in assets.dashboards.items():
        files[f"dashboards/{name}.yaml"] = _dashboard(name, dashboard, assets, numbers)
    return {
        path: yaml.safe_dump(content, sort_keys=False, allow_unicode=True) for path, content in files.items()
    }


def _params(chart: Chart, dataset: Dataset) -> dict[str, Any]:
    params = {"viz_type": chart.viz_type, **chart.params}
    if dataset.main_dttm_col:
        params["adhoc_filters"] = [time_filter(dataset.main_dttm_col), *params.get("adhoc_filters", [])]
    return params


def time_filter(column: str) -> dict[str, str]:
    """The condition of a chart whose range Superset replaces by that of the dashboard's time filter.

    The time filter does not apply to a chart without it.
    """
    return {
        "clause": "WHERE",
        "expressionType": "SIMPLE",
        "subject": column,
        "operator": "TEMPORAL_RANGE",
        "comparator": "No filter",
    }


def label(name: str) -> str:
    """The name of a column or metric as a heading, which wraps between its words."""
    return name.replace("_", " ")


def _dataset(name: str, dataset: Dataset) -> dict[str, Any]:
    table = columns_of(dataset.schema_name, dataset.table_name)
    return {
        "table_name": dataset.table_name,
        "main_dttm_col": dataset.main_dttm_col,
        "description": table.description,
        "default_endpoint": None,
        "offset": 0,
        "cache_timeout": None,
        "schema": dataset.schema_name,
        "sql": None,
        "params": None,
        "template_params": None,
        "filter_select_enabled": True,
        "fetch_values_predicate": None,
        "extra": None,
        "uuid": uuid_of("datasets", name),
        "metrics": [
            {
                "metric_name": metric_name,
                "verbose_name": metric.verbose_name or label(metric_name),
                "metric_type": None,
                "expression": metric.expression,
                "description": metric.description,
                "d3format": metric.d3format,
                "extra": {},
                "warning_text": None,
            }
            for metric_name, metric in dataset.metrics.items()
        ],
        "columns": [
            *(_column(column) for column in table.columns if column.name not in WITHOUT),
            *(
                _column(Column(each, "VARCHAR", of.description)) | {"expression": of.expression}
                for each, of in dataset.calculated.items()
            ),
        ],
        "version": VERSION,
        "database_uuid": uuid_of("databases", dataset.database),
    }


def _column(column: Column) -> dict[str, Any]:
    return {
        "column_name": column.name,
        "verbose_name": label(column.name),
        "is_dttm": column.is_time,
        "is_active": True,
        "type": column.type,
        "groupby": True,
        "filterable": True,
        "expression": None,
        "description": column.description,
        "python_date_format": None,
        "extra": {},
    }


def _dashboard(name: str, dashboard: Dashboard, assets: Assets, numbers: dict[str, int]) -> dict[str, Any]:
    return {
        "dashboard_title": dashboard.dashboard_title,
        "description": dashboard.description,
        "css": "",
        "slug": dashboard.slug,
        "uuid": uuid_of("dashboards", name),
        "position": _position(dashboard, assets, numbers),
        "metadata": {
            "native_filter_configuration": [_filter(name, each) for each in dashboard.filters],
            "color_scheme": "supersetColors",
            "cross_filters_enabled": True,
            "refresh_frequency": 0,
            "timed_refresh_immune_slices": [],
            "expanded_slices": {},
            "label_colors": {},
            "default_filters": json.dumps({}),
        },
        "version": VERSION,
    }


def _position(dashboard: Dashboard, assets: Assets, numbers: dict[str, int]) -> dict[str, Any]:
    position: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "children": [], "parents": ["ROOT_ID"]},
        "HEADER_ID": {"type": "HEADER", "id": "HEADER_ID", "meta": {"text": dashboard.dashboard_title}},
    }
    first, *others = [(str(number), row) for number, row in enumerate(dashboard.rows, start=1)]
    above, below = notes(dashboard, assets)
    for row_name, row in (first, *above, *others, *below):
        row_id = f"ROW-{row_name}"
        position["GRID_ID"]["children"].append(row_id)
        parents = ["ROOT_ID", "GRID_ID"]
        children = []
        for cell_number, cell in enumerate(row, start=1):
            cell_id = f"{'CHART' if cell.chart else 'MARKDOWN'}-{row_name}-{cell_number}"
            children.append(cell_id)
            position[cell_id] = _cell(cell_id, cell, [*parents, row_id], assets, numbers)
        position[row_id] = {
            "type": "ROW",
            "id": row_id,
            "children": children,
            "parents": parents,
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        }
    return position


def _cell(
    cell_id: str, cell: Cell, parents: list[str], assets: Assets, numbers: dict[str, int]
) -> dict[str, Any]:
    size = {"width": cell.width, "height": cell.height}
    if cell.chart is None:
        meta = {**size, "code": cell.markdown}
        return {"type": "MARKDOWN", "id": cell_id, "children": [], "parents": parents, "meta": meta}
    meta = {
        **size,
        "chartId": numbers[cell.chart],
        "uuid": uuid_of("charts", cell.chart),
        "sliceName": assets.charts[cell.chart].slice_name,
    }
    return {"type": "CHART", "id": cell_id, "children": [], "parents": parents, "meta": meta}


def _filter(dashboard: str, each: Filter) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": f"NATIVE_FILTER-{uuid_of('filters', f'{dashboard}/{each.name}')[:13]}",
        "name": each.name,
        "type": "NATIVE_FILTER",
        "filterType": "filter_time" if each.type == "time" else "filter_select",
        "description": each.description,
        "scope": {"rootPath": ["ROOT_ID"], "excluded": []},
        "cascadeParentIds": [],
    }
    if each.type == "time":
        value = each.default or "No filter"
        return found | {
            "targets": [{}],
            "controlValues": {},
            "defaultDataMask": {
                "extraFormData": {"time_range": value},
                "filterState": {"value": value},
                "ownState": {},
            },
        }
    return found | {
        "targets": [
            {"datasetUuid": uuid_of("datasets", each.dataset or ""), "column": {"name": each.column}}
        ],
        "controlValues": {
            "enableEmptyFilter": False,
            "defaultToFirstItem": False,
            "multiSelect": True,
            "searchAllOptions": True,
            "inverseSelection": False,
        },
        "defaultDataMask": {"extraFormData": {}, "filterState": {}, "ownState": {}},
    }
