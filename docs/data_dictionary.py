"""Write docs/data_dictionary.md from where the tables are defined; `make dictionary` calls it."""

from __future__ import annotations

from pathlib import Path

import yaml

from spark_jobs.lake import tables
from spark_jobs.settings import PROJECT

PAGE = PROJECT / "docs" / "data_dictionary.md"
HEAD = """# Data dictionary

The tables `raw`, `events`, `broker_facts`, `ops` and `marts` of the catalog `lake`. Times are UTC.
[definitions.md](definitions.md) defines the numbers of the marts, and [marts.md](marts.md) shows which mart answers what.
`make dictionary` generates this page from the YAML files of the dbt project; a test fails if it is out of date.
"""


def _section(name: str, description: str, columns: list[tuple[str, str, str]]) -> str:
    lines = [f"## `lake.{name}`", "", " ".join(description.split()), "", "| column | type | meaning |"]
    lines += ["| --- | --- | --- |"]
    for column, kind, meaning in columns:
        text = " ".join(meaning.split()).replace("|", "\\|")
        lines.append(f"| `{column}` | {kind} | {text} |")
    return "\n".join(lines) + "\n"


def _models() -> list[str]:
    sections = []
    files = Path(PROJECT / "dbt_project" / "models" / "marts").rglob("*.yml")
    for file in sorted(files, key=lambda file: file.name):
        for model in yaml.safe_load(file.read_text()).get("models") or []:
            columns = [(c["name"], c["data_type"], c["description"]) for c in model["columns"]]
            sections.append(_section(f"marts.{model['name']}", model["description"], columns))
    return sections


def render() -> str:
    """The whole page: the jobs' tables, then the marts."""
    own = [_section(t.name, t.comment, [(c.name, c.type, c.comment) for c in t.columns]) for t in tables.ALL]
    return "\n".join([HEAD, *own, *_models()])


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"wrote {PAGE.relative_to(PROJECT)}")
