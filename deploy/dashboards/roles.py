"""The roles of people who look at dashboards: `dashboards/roles.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from deploy.dashboards.assets import FOLDER, AssetError

FILE = "roles.yaml"


class Role(BaseModel):
    """A role.

    Attributes:
        may_query: whether it may use SQL Lab, which shows all of the file.
        only: row-level rules, column to allowed values. Datasets without the column are not shown at all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    may_query: bool = False
    only: dict[str, list[str]] = {}


def read_roles(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """The roles, each with `name`, `may_query` and `only`.

    Raises:
        AssetError: the file is wrong, or a role has both SQL Lab and rules, which SQL Lab does not enforce.
    """
    try:
        given = yaml.safe_load((folder / FILE).read_text()) or {}
        roles = {name: Role.model_validate(role or {}) for name, role in given.items()}
    except (ValidationError, yaml.YAMLError) as error:
        raise AssetError(f"{FILE}: {error}") from error
    for name, role in roles.items():
        if role.may_query and role.only:
            raise AssetError(
                f"{FILE}: role {name} has rules and may_query, but SQL Lab does not enforce rules"
            )
    return [{"name": name, **role.model_dump()} for name, role in roles.items()]
