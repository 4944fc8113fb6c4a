"""`make docs` gives a page that knows every mart and its columns."""

from __future__ import annotations

import yaml

from docs import site
from spark_jobs.mart_build.definitions import DBT_PROJECT
from spark_jobs.settings import Settings


def test_every_mart_and_column_is_on_the_page(tmp_path):
    page = site.write(tmp_path / "docs", Settings(home=tmp_path)).read_text()
    models = [
        model
        for file in (DBT_PROJECT / "models" / "marts").rglob("*.yml")
        for model in yaml.safe_load(file.read_text())["models"]
    ]
    assert len(models) > 20
    for model in models:
        assert f"model.trace_warehouse.{model['name']}" in page
        for column in model["columns"]:
            assert column["description"].replace('"', '\\"') in page, (model["name"], column["name"])
