"""Every query of docs/cookbook.md runs and gives what stands below it.

`make cookbook` sets TRACE_WRITE_COOKBOOK, and the outputs are written again.
"""

from __future__ import annotations

import os
import re

from pyspark.sql import DataFrame

from spark_jobs.settings import PROJECT

COOKBOOK = PROJECT / "docs" / "cookbook.md"
RECIPE = re.compile(r"```sql\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def shown(frame: DataFrame) -> str:
    """The rows as a table of text, columns aligned."""
    rows = [frame.columns, *([("" if v is None else str(v)) for v in row] for row in frame.collect())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]]) + "\n"


def test_each_recipe(marts):
    text = COOKBOOK.read_text()
    recipes = RECIPE.findall(text)
    assert len(recipes) == text.count("\n## ") >= 15
    found = [shown(marts.sql(query)) for query, _ in recipes]
    if os.environ.get("TRACE_WRITE_COOKBOOK"):
        outputs = iter(found)
        COOKBOOK.write_text(
            RECIPE.sub(lambda recipe: f"```sql\n{recipe[1]}```\n\n```text\n{next(outputs)}```", text)
        )
        return
    for (query, output), now in zip(recipes, found, strict=True):
        assert now == output, query
