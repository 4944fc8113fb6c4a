"""The base class of each section of the settings, and secrets that a section names by a prefix of variables."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from spark_jobs.settings_error import SettingsError


class Section(BaseModel):
    """A table of the settings file; unknown keys are refused."""

    # An input that is refused may hold a secret.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def secrets(key: str, prefix: str, names: Iterable[str]) -> list[str]:
    """The values of the variables `<prefix>_<name>`, read from the environment now.

    Args:
        key: the setting that holds the prefix, for the message.
        prefix: of the variables.
        names: what follows the prefix, of each variable that must be set.

    Raises:
        SettingsError: a variable is not set.
    """
    variables = [f"{prefix}_{name}" for name in names]
    if missing := [variable for variable in variables if not os.environ.get(variable)]:
        raise SettingsError(f"set {' and '.join(missing)} in the environment: {key} names them")
    return [os.environ[variable] for variable in variables]
