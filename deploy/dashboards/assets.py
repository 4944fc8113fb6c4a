"""The dashboards as code: the YAML files of `dashboards/`, which refer to each other by file name."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spark_jobs.settings import PROJECT

FOLDER = PROJECT / "dashboards"
KINDS = ("databases", "datasets", "charts", "dashboards")
# Of the UUIDs of all objects; changing it makes new objects of all.
_NAMESPACE = uuid.UUID("0a6f0f4e-6a0d-5c55-9b64-7d0a8d3f3c1b")
_COLUMNS = 12  # of a dashboard's grid


class AssetError(ValueError):
    """A file of `dashboards/` is wrong; the message names it."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Database(_File):
    """A connection. The file has no address: the import sets that of the serving file."""

    database_name: str
    description: str = ""


class Metric(_File):
    """A metric of a dataset: an aggregate expression in plain SQL."""

    expression: str
    verbose_name: str | None = None
    description: str | None = None
    d3format: str | None = None


class Calculated(_File):
    """A calculated column of a dataset."""

    expression: str
    description: str


class Dataset(_File):
    """A table of the serving file. Its columns are those of the dbt model or source, with their descriptions."""

    database: str
    schema_name: str = Field(alias="schema")
    table_name: str
    main_dttm_col: str | None = None
    metrics: dict[str, Metric] = {}
    calculated: dict[str, Calculated] = {}


class Chart(_File):
    """A chart: Superset's form data in `params`, without ids."""

    slice_name: str
    dataset: str
    viz_type: str
    description: str
    params: dict[str, Any] = {}


class Filter(_File):
    """A filter of a dashboard: the values of a column, or a range of time."""

    name: str
    type: Literal["select", "time"] = "select"
    dataset: str | None = None
    column: str | None = None
    default: str | None = None
    description: str = ""


class Cell(_File):
    """A chart or a text in a row; widths of a row add up to at most 12, heights are units of 8 pixels."""

    chart: str | None = None
    markdown: str | None = None
    width: int = Field(default=4, ge=1, le=_COLUMNS)
    height: int = Field(default=50, ge=5)


class Dashboard(_File):
    """A dashboard: rows of cells."""

    dashboard_title: str
    slug: str
    description: str
    filters: list[Filter] = []
    rows: list[list[Cell]]


class Assets(_File):
    """All files by kind and name."""

    databases: dict[str, Database]
    datasets: dict[str, Dataset]
    charts: dict[str, Chart]
    dashboards: dict[str, Dashboard]


_Any = TypeVar("_Any", bound=_File)


def uuid_of(kind: str, name: str) -> str:
    """The UUID of an object, which follows from its kind and the name of its file."""
    return str(uuid.uuid5(_NAMESPACE, f"{kind}/{name}"))


def read(folder: Path = FOLDER) -> Assets:
    """Read and check all files.

    Raises:
        AssetError: a file has a wrong or missing key, or refers to a file that does not exist.
    """
    found = Assets(
        databases=_read(folder / "databases", Database),
        datasets=_read(folder / "datasets", Dataset),
        charts=_read(folder / "charts", Chart),
        dashboards=_read(folder / "dashboards", Dashboard),
    )
    for name, dataset in found.datasets.items():
        _exists(f"datasets/{name}.yaml", "databases", dataset.database, found.databases)
    for name, chart in found.charts.items():
        _exists(f"charts/{name}.yaml", "datasets", chart.dataset, found.datasets)
    for name, dashboard in found.dashboards.items():
        file = f"dashboards/{name}.yaml"
        for cell in (cell for row in dashboard.rows for cell in row):
            if (cell.chart is None) == (cell.markdown is None):
                raise AssetError(f"{file}: a cell has either a chart or a markdown text: {cell}")
            if cell.chart:
                _exists(file, "charts", cell.chart, found.charts)
        for row in dashboard.rows:
            if sum(cell.width for cell in row) > _COLUMNS:
                raise AssetError(
                    f"{file}: a row is wider than {_COLUMNS}: {[c.chart or 'markdown' for c in row]}"
                )
        for each in dashboard.filters:
            if each.type == "select":
                if each.dataset is None or each.column is None:
                    raise AssetError(f"{file}: the filter {each.name!r} needs dataset and column")
                _exists(file, "datasets", each.dataset, found.datasets)
    return found


def _read(folder: Path, kind: type[_Any]) -> dict[str, _Any]:
    found = {}
    for file in sorted(folder.glob("*.yaml")):
        try:
            found[file.stem] = kind.model_validate(yaml.safe_load(file.read_text()))
        except (ValidationError, yaml.YAMLError) as error:
            raise AssetError(f"{folder.name}/{file.name}: {error}") from error
    return found


def _exists(file: str, kind: str, name: str, known: dict[str, Any]) -> None:
    if name not in known:
        raise AssetError(f"{file}: there is no {kind}/{name}.yaml")
