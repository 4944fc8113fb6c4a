"""Write docs/settings.md from the settings; `make settings` calls it."""

from __future__ import annotations

import json
import re
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import AwareDatetime, BaseModel
from pydantic.fields import FieldInfo

from spark_jobs.settings import PROJECT, TABLE_POLICIES, Settings

PAGE = PROJECT / "docs" / "settings.md"
HEAD = """# Settings

Every setting with its default. `make settings` generates this page from `spark_jobs/settings.py` and
`spark_jobs/settings_deployment.py`; a test fails if it is out of date.

Settings come from the TOML file that `TRACE_SETTINGS` names. An environment variable has precedence: `TRACE_`, the section, `__`
and the key, all in capitals. Lists and tables are JSON there.

```toml
# settings.toml
environment = "production"

[[clusters]]
name = "prod"
namesrv = ["10.0.0.5:9876", "10.0.0.6:9876"]

[limits]
grace_seconds = 600
```

```
export TRACE_SETTINGS=settings.toml
export TRACE_LIMITS__GRACE_SECONDS=600
export TRACE_CLUSTERS='[{"name": "prod", "namesrv": ["10.0.0.5:9876"]}]'
```

An unknown key is an error, which names the nearest valid one. Secrets have no setting of their own: `credentials_env` names the
variables that have them. Only the addresses in the section `alerts` may contain secrets, and they are never printed. A changed
setting takes effect in the next job; of the schedules, after `make down` and `make up`. A changed limit is a change of the
models: all rows that depend on it are computed again ([incremental.md](incremental.md)).
"""


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models within a type, such as `Cluster` in `list[Cluster]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def _type(annotation: Any) -> str:
    """A type as the settings file writes it."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part) for part in parts if part is not type(None))
    if origin in (list, tuple):
        return f"list of {_type(parts[0])}"
    if origin is dict:
        return f"table of {_type(parts[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    names = {bool: "true or false", int: "integer", float: "number", str: "text", Path: "path"}
    return names.get(annotation, "time" if annotation is AwareDatetime else "text")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None or field.default is None:
        return "unset"
    return f"`{field.default}`" if isinstance(field.default, Path) else f"`{json.dumps(field.default)}`"


def _text(text: str) -> str:
    """Of a docstring or description, for Markdown: names of pages are links, and `<prefix>` is no tag."""
    text = " ".join(text.split()).replace("|", r"\|")
    # What is in backticks is no tag anyway, and would show the backslash.
    text = "`".join(
        part if code % 2 else part.replace("<", r"\<") for code, part in enumerate(text.split("`"))
    )
    return re.sub(r"docs/([\w/]+\.md)", r"[\1](\1)", text)


def _table(model: type[BaseModel]) -> str:
    rows = "| key | value | default | meaning |\n| --- | --- | --- | --- |\n"
    for name, field in model.model_fields.items():
        default = "unset" if models_in(field.annotation) else _default(field)
        rows += f"| `{name}` | {_type(field.annotation)} | {default} | {_text(field.description or '')} |\n"
    return rows


def _policies() -> str:
    """The default rows of `[[maintenance]]`."""
    shown = (
        "tables",
        "pool",
        "compact_files",
        "max_manifests",
        "keep_snapshots",
        "retention_days",
        "retention_column",
    )
    rows = f"| {' | '.join(f'`{name}`' for name in shown)} |\n|{' --- |' * len(shown)}\n"
    for policy in TABLE_POLICIES:
        values = policy.model_dump()
        cells = ("unset" if values[name] is None else f"`{values[name]}`" for name in shown)
        rows += f"| {' | '.join(cells)} |\n"
    return f"\nThe default rows, which stand after yours:\n\n{rows}"


def _sections(path: str, field: FieldInfo) -> str:
    """The section of a setting, and those within it; nothing for a plain value."""
    text = ""
    heading = f"[[{path}]]" if get_origin(field.annotation) in (list, tuple) else f"[{path}]"
    for model in models_in(field.annotation):
        text += f"\n## {heading}\n\n{_text(model.__doc__ or '')}\n\n{_table(model)}"
        text += "".join(_sections(f"{path}.{key}", inner) for key, inner in model.model_fields.items())
    return text


def render() -> str:
    """The whole page."""
    page, sections = HEAD, ""
    page += "\n## Without a section\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n"
    for name, field in Settings.model_fields.items():
        sections += _sections(name, field)
        if models_in(field.annotation):
            continue
        page += f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {_text(field.description or '')} |\n"
    return page + sections + _policies()


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"wrote {PAGE.relative_to(PROJECT)}")
