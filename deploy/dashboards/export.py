"""`make dashboards-export`: what somebody changed in the browser, back into the files of `dashboards/`.

A file is written only if its content has changed, so a second export changes nothing. Objects that no file has become new
files, and files whose object is gone are deleted.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from rich.console import Console

from deploy.dashboards import assets
from deploy.dashboards.assets import FOLDER, KINDS, AssetError, uuid_of
from deploy.dashboards.bundle import label, time_filter
from deploy.dashboards.notes import NOTE
from deploy.dashboards.service import DashboardsError, Superset
from spark_jobs.settings import load_settings

# Form data that Superset adds: ids, the state of the browser, and what is stored elsewhere.
_VOLATILE = {
    *(
        "datasource",
        "slice_id",
        "viz_type",
        "url_params",
        "dashboards",
        "dashboardId",
        "extra_form_data",
        "force",
    ),
    *(
        "result_format",
        "result_type",
        "form_data_key",
        "label_colors",
        "shared_label_colors",
        "map_label_colors",
    ),
    *("ownState", "filterState", "chart_id", "annotation_layers"),
}
_console = Console(stderr=True, highlight=False, soft_wrap=True)
Files = dict[str, dict[str, Any]]
"""`<kind>/<name>.yaml` to its content."""


def normalized(bundle: dict[str, str], before: assets.Assets) -> Files:
    """The files of `dashboards/` for the objects of a bundle.

    Args:
        bundle: path to text, as Superset exports it.
        before: the files so far: an object keeps the name of its file.

    Raises:
        AssetError: an object has something that the files cannot express.
    """
    objects: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for path, text in sorted(bundle.items()):
        kind = path.split("/")[0]
        if kind in objects:
            objects[kind].append(yaml.safe_load(text))
    names = {kind: _names(kind, objects[kind], before) for kind in KINDS}
    files: Files = {}
    for kind, convert in (
        ("databases", _database),
        ("datasets", _dataset),
        ("charts", _chart),
        ("dashboards", _dashboard),
    ):
        for each in objects[kind]:
            files[f"{kind}/{names[kind][each['uuid']]}.yaml"] = convert(each, names)
    return files


_TITLES = {
    "databases": "database_name",
    "datasets": "table_name",
    "charts": "slice_name",
    "dashboards": "dashboard_title",
}


def _names(kind: str, found: list[dict[str, Any]], before: assets.Assets) -> dict[str, str]:
    known = {uuid_of(kind, name): name for name in getattr(before, kind)}
    names: dict[str, str] = {}
    for each in found:
        name = known.get(each["uuid"])
        if name is None:
            name = base = re.sub(r"[^a-z0-9]+", "_", each[_TITLES[kind]].lower()).strip("_") or "unnamed"
            number = 2
            while name in {*known.values(), *names.values()}:
                name, number = f"{base}_{number}", number + 1
        names[each["uuid"]] = name
    return names


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


def _database(of: dict[str, Any], _: dict[str, dict[str, str]]) -> dict[str, Any]:
    return {"database_name": of["database_name"]}


def _dataset(of: dict[str, Any], names: dict[str, dict[str, str]]) -> dict[str, Any]:
    if of.get("sql"):
        raise AssetError(
            f"dataset {of['table_name']}: it is a query; datasets are tables of the serving file"
        )
    metrics = {
        metric["metric_name"]: _without_empty(
            {name: metric.get(name) for name in ("expression", "verbose_name", "d3format", "description")}
            | ({"verbose_name": None} if metric.get("verbose_name") == label(metric["metric_name"]) else {})
        )
        for metric in of["metrics"]
    }
    calculated = {
        column["column_name"]: _without_empty(
            {name: column.get(name) for name in ("expression", "description")}
        )
        for column in of["columns"]
        if column.get("expression")
    }
    return _without_empty(
        {
            "database": names["databases"][of["database_uuid"]],
            "schema": of["schema"],
            "table_name": of["table_name"],
            "main_dttm_col": of.get("main_dttm_col"),
            "metrics": dict(sorted(metrics.items())),
            "calculated": calculated,
        }
    )


def _chart(of: dict[str, Any], names: dict[str, dict[str, str]]) -> dict[str, Any]:
    params = {k: v for k, v in (of.get("params") or {}).items() if k not in _VOLATILE}
    conditions = [each for each in params.pop("adhoc_filters", []) if not _is_time_filter(each)]
    if conditions:
        params["adhoc_filters"] = conditions
    return {
        "slice_name": of["slice_name"],
        "dataset": names["datasets"][of["dataset_uuid"]],
        "viz_type": of["viz_type"],
        "description": of.get("description") or "",
        "params": params,
    }


def _is_time_filter(condition: dict[str, Any]) -> bool:
    added = time_filter(condition.get("subject", ""))
    return {name: condition.get(name) for name in added} == added


def _dashboard(of: dict[str, Any], names: dict[str, dict[str, str]]) -> dict[str, Any]:
    title, position = of["dashboard_title"], of["position"]
    rows = []
    for row_id in position["GRID_ID"]["children"]:
        if row_id.startswith(NOTE):
            continue
        row = position[row_id]
        if row["type"] != "ROW":
            raise AssetError(
                f"dashboard {title}: {row['type']} is not supported, only rows of charts and texts"
            )
        rows.append([_cell(position[cell], title, names) for cell in row["children"]])
    filters = [_filter(each, title, names) for each in of["metadata"].get("native_filter_configuration", [])]
    return {
        "dashboard_title": title,
        "slug": of["slug"],
        "description": of.get("description") or "",
        "filters": filters,
        "rows": rows,
    }


def _cell(cell: dict[str, Any], title: str, names: dict[str, dict[str, str]]) -> dict[str, Any]:
    size = {"width": cell["meta"]["width"], "height": cell["meta"]["height"]}
    if cell["type"] == "CHART":
        return {"chart": names["charts"][cell["meta"]["uuid"]], **size}
    if cell["type"] == "MARKDOWN":
        return {"markdown": cell["meta"]["code"], **size}
    raise AssetError(f"dashboard {title}: {cell['type']} in a row is not supported, only charts and texts")


def _filter(each: dict[str, Any], title: str, names: dict[str, dict[str, str]]) -> dict[str, Any]:
    about = _without_empty({"description": each.get("description")})
    if each["filterType"] == "filter_time":
        value = each.get("defaultDataMask", {}).get("filterState", {}).get("value")
        return {"name": each["name"], "type": "time", **_without_empty({"default": value}), **about}
    if each["filterType"] != "filter_select":
        raise AssetError(f"dashboard {title}: the filter {each['name']} is neither of values nor of time")
    (target,) = each["targets"]
    dataset = names["datasets"][target["datasetUuid"]]
    return {"name": each["name"], "dataset": dataset, "column": target["column"]["name"], **about}


def _comparable(kind: str, content: dict[str, Any]) -> str:
    """A file's content without what is a default or has no order."""
    models: dict[str, type[BaseModel]] = {
        "databases": assets.Database,
        "datasets": assets.Dataset,
        "charts": assets.Chart,
        "dashboards": assets.Dashboard,
    }
    found = models[kind].model_validate(content).model_dump(by_alias=True)
    if kind == "databases":
        found.pop("description")
    return json.dumps(found, sort_keys=True)


def write(files: Files, folder: Path = FOLDER) -> list[str]:
    """Write the files that have changed, and delete those that are gone; return lines about them."""
    done = []
    for path, content in files.items():
        file, kind = folder / path, path.split("/")[0]
        if file.exists():
            older = yaml.safe_load(file.read_text())
            if _comparable(kind, older) == _comparable(kind, content):
                continue
        done.append(f"{'changed' if file.exists() else 'new'}: {path}")
        file.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))
    for kind in KINDS:
        for file in sorted((folder / kind).glob("*.yaml")):
            if f"{kind}/{file.name}" not in files:
                done.append(f"deleted: {kind}/{file.name}")
                file.unlink()
    return done


def main() -> int:
    superset = Superset(load_settings())
    try:
        if not superset.password_file.exists():
            raise DashboardsError(f"no Superset in {superset.home} yet: run `make dashboards`")
        with tempfile.TemporaryDirectory(prefix="export-", dir=superset.home) as scratch:
            superset.run("dump.py", scratch)
            root = Path(scratch)
            bundle = {str(file.relative_to(root)): file.read_text() for file in root.rglob("*.yaml")}
        done = write(normalized(bundle, assets.read()))
    except (DashboardsError, AssetError) as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    _console.print("\n".join(done) or "nothing has changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
