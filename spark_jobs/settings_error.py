"""Say what is wrong with the settings in one line: where the value is set, its key, and the nearest valid key.

No message holds a value that was given: it may be a secret.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import pydantic_settings
from pydantic import BaseModel, ValidationError

PREFIX = "TRACE_"
DELIMITER = "__"
# Variables whose name is this close to a setting's, such as TRACE_SPARK_DRIVER_MEM, are taken for a typing error.
_TYPO = 0.85

_Key = tuple[int | str, ...]


class SettingsError(ValueError):
    """A setting cannot be used; the message names the place where it is set and its key, and says what to do."""


def explain(error: Exception, model: type[BaseModel], given: Mapping[str, Any]) -> SettingsError:
    """The error that a reader of the settings gets in place of pydantic's.

    Args:
        error: what validating `model` raised, or reading its sources.
        model: the settings.
        given: the values that were passed in code.
    """
    file = os.environ.get("TRACE_SETTINGS")
    if isinstance(error, ValidationError):
        lines = [
            f"{_source(detail['loc'], given, file)}: {problem(detail, model)}"
            for detail in error.errors(include_url=False)
        ]
        return SettingsError("; ".join(dict.fromkeys(lines)))
    if isinstance(error, tomllib.TOMLDecodeError):
        return SettingsError(f"settings file {file} is not valid TOML: {error}")
    if isinstance(error, UnicodeDecodeError):
        return SettingsError(f"settings file {file} is not UTF-8 text")
    if isinstance(error, OSError):
        return SettingsError(f"settings file {file} cannot be read: {error.strerror}")
    if isinstance(error, pydantic_settings.SettingsError):
        text = getattr(error.__cause__, "doc", None)  # of a JSONDecodeError
        names = [name for name in os.environ if name.upper().startswith(PREFIX) and os.environ[name] == text]
        where = f"environment variable {' or '.join(names)}" if names else "an environment variable"
        return SettingsError(f"{where} is not valid JSON")
    return SettingsError(str(error))


def problem(detail: Any, model: type[BaseModel]) -> str:
    """One error of a `ValidationError`, with its key and without the value."""
    loc: _Key = detail["loc"]
    key = _shown(loc)
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown key {key}: {_suggestion(loc, model)}"
        case "missing":
            return f"key {key} is missing"
        case "value_error":
            return f"{key}: {detail['ctx']['error']}" if key else str(detail["ctx"]["error"])
    text = detail["msg"][:1].lower() + detail["msg"][1:]
    if detail["type"].endswith("_type"):
        text += f" (the value is of type {type(detail['input']).__name__})"
    return f"{key}: {text}"


def check_file(path: str) -> None:
    """Raise SettingsError where the settings file is not there, with the file that was probably meant."""
    file = Path(path)
    if file.is_file():
        return
    what = "is a folder" if file.is_dir() else "does not exist"
    near = [each.stem for each in file.parent.glob("*.toml")] if file.parent.is_dir() else []
    found = difflib.get_close_matches(file.stem, near, 1)
    hint = (
        f"did you mean {file.parent / found[0]}.toml?" if found else "correct the path or unset the variable"
    )
    raise SettingsError(f"environment variable TRACE_SETTINGS: settings file {path} {what}: {hint}")


def check_variables(model: type[BaseModel]) -> None:
    """Raise SettingsError for a variable that means a setting and names none: `TRACE_LIMTS__GRACE_SECONDS`.

    pydantic-settings reads the variables of the fields that it knows and sees no others. Other programs' variables may
    begin with `TRACE_` as well: only what contains `__`, or is very close to a setting's name, is refused. That includes
    names with one underscore between section and key, such as `TRACE_SPARK_MASTER`.
    """
    fields = list(model.model_fields)
    for name in os.environ:
        if not name.upper().startswith(PREFIX) or name.upper() == f"{PREFIX}SETTINGS":
            continue
        first, _, below = name[len(PREFIX) :].lower().partition(DELIMITER)
        near = difflib.get_close_matches(first, fields, 1, 0.6 if below else _TYPO)
        meant = None if below else _with_one_underscore(first, model)
        if first in fields or not (below or near or meant):
            continue
        hint = f"the sections are {', '.join(fields)}"
        if meant:
            hint = f"did you mean {PREFIX}{meant.upper()}?"
        elif near:
            right = f"{near[0]}{DELIMITER}{below}" if below else near[0]
            hint = f"did you mean {PREFIX}{right.upper()}?"
        raise SettingsError(f"environment variable {name}: unknown setting {first}: {hint}")


def _with_one_underscore(name: str, model: type[BaseModel]) -> str | None:
    """The setting `section__key` that `section_key` probably means."""
    for section, field in model.model_fields.items():
        table = field.annotation
        if name.startswith(f"{section}_") and isinstance(table, type) and issubclass(table, BaseModel):
            key = name.removeprefix(f"{section}_")
            if near := difflib.get_close_matches(key, table.model_fields, 1, _TYPO):
                return f"{section}{DELIMITER}{near[0]}"
    return None


def _source(loc: _Key, given: Mapping[str, Any], file: str | None) -> str:
    """Where the value of a key comes from: the environment comes before the file."""
    if loc and loc[0] in given:
        return "the program's own settings"
    variables = {name.upper(): name for name in os.environ}
    for length in range(len(loc), 0, -1):
        name = variables.get(PREFIX + DELIMITER.join(map(str, loc[:length])).upper())
        if name and (length == len(loc) or _has(os.environ[name], loc[length:])):
            return f"environment variable {name}"
    return f"settings file {file}" if file else "environment variables"


def _has(text: str, loc: _Key) -> bool:
    """Whether the JSON text contains the key or, for a missing key, the table or list that should contain it."""
    try:
        value = json.loads(text)
        for part in loc[:-1]:
            value = value[part]
    except (ValueError, KeyError, IndexError, TypeError):
        return False
    return isinstance(value, dict | list)


def _suggestion(loc: _Key, model: type[BaseModel]) -> str:
    """The nearest valid key: of the same table, else one of nearly the same name in another."""
    key, tables = str(loc[-1]), dict(_tables(model))
    table = tables.get(tuple(0 if isinstance(part, int) else part for part in loc[:-1]))
    here = {name: (*loc[:-1], name) for name in (table.model_fields if table else ())}
    outermost_last = sorted(reversed([*tables]), key=len, reverse=True)
    elsewhere = {name: (*above, name) for above in outermost_last for name in tables[above].model_fields}
    for known, cutoff in ((here, 0.7), (elsewhere, 0.8), (here, 0.5)):
        if near := difflib.get_close_matches(key, known, 1, cutoff):
            return f"did you mean {_shown(known[near[0]])}?"
    return f"the keys are {', '.join(here)}"


def _tables(model: type[BaseModel], above: _Key = ()) -> Iterator[tuple[_Key, type[BaseModel]]]:
    """The tables of the settings by their place, the whole first; of a list of tables, the first one."""
    yield above, model
    for name, field in model.model_fields.items():
        index = (0,) if get_origin(field.annotation) in (list, tuple) else ()
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from _tables(inner, (*above, name, *index))


def _shown(loc: _Key) -> str:
    """`clusters[0].namesrv`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
