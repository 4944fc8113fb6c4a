"""What dbt provides to the macros while SQLFluff renders the models: the vars of dbt_project.yml, and no connection."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

_VARS: dict[str, Any] = yaml.safe_load(Path(__file__).parents[1].joinpath("dbt_project.yml").read_text())[
    "vars"
]

execute = False
flags = SimpleNamespace(WHICH="compile")
modules = SimpleNamespace(datetime=datetime)


def var(name: str) -> Any:
    """The default of a var; a KeyError for a name that dbt_project.yml does not have."""
    return _VARS[name]
