"""Every query of docs/cookbook.md gives the output below it, in DuckDB on the serving file and in Spark SQL.

`make cookbook` sets TRACE_WRITE_COOKBOOK, and the outputs are written again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from spark_jobs.serving import files
from spark_jobs.serving.build import build
from spark_jobs.serving.contents import current_file
from spark_jobs.settings import PROJECT

COOKBOOK = PROJECT / "docs" / "cookbook.md"
# A query, one for Spark SQL if it needs another dialect, and the output of both.
RECIPE = re.compile(
    r"```sql\n(?P<query>.*?)```\n\n(?:In Spark SQL:\n\n```sql\n(?P<spark>.*?)```\n\n)?```text\n(?P<output>.*?)```",
    re.DOTALL,
)


@pytest.fixture
def reader(marts, settings):
    """DuckDB on the serving file, opened read-only as `make sql` does."""
    build(settings)
    with duckdb.connect(current_file(settings), read_only=True) as connection:
        yield connection
    files.remove_all(settings)


def shown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The rows as a table of text, columns aligned."""
    cells = [list(columns), *([_text(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]]) + "\n"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)


def test_each_recipe(marts, reader):
    text = COOKBOOK.read_text()
    recipes = list(RECIPE.finditer(text))
    assert len(recipes) == text.count("\n## ") >= 15
    outputs = []
    for recipe in recipes:
        found = reader.execute(recipe["query"])
        in_duckdb = shown([column[0] for column in found.description], found.fetchall())
        frame = marts.sql(recipe["spark"] or recipe["query"])
        assert shown(frame.columns, frame.collect()) == in_duckdb, recipe["query"]
        outputs.append(in_duckdb)
    if os.environ.get("TRACE_WRITE_COOKBOOK"):
        written = iter(outputs)
        COOKBOOK.write_text(
            RECIPE.sub(
                lambda old: old[0].replace(f"```text\n{old['output']}", f"```text\n{next(written)}"), text
            )
        )
        return
    for recipe, output in zip(recipes, outputs, strict=True):
        assert recipe["output"] == output, recipe["query"]
