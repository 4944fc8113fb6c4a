"""Secrets stay where they are: not in an error, not in what a debugger or a log would show of an object."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

from spark_jobs.rocketmq.acl import Credentials


def assert_no_secret(error: BaseException, held: Any, credentials: Credentials | None) -> None:
    """Neither what is shown of the error, nor `repr` of whatever the client holds, has the secret."""
    if credentials is None:
        return
    shown = ["".join(traceback.format_exception(error)), repr(error), repr(error.args), repr(vars(error))]
    shown += map(repr, everything(held, set()))
    secrets = [each for each in (credentials.secret_key, credentials.security_token) if each]
    assert not [text for text in shown for secret in secrets if secret in text]


def everything(held: Any, seen: set[int]) -> Iterator[Any]:
    """The object and all objects of this project that it refers to."""
    if id(held) in seen or not type(held).__module__.startswith("spark_jobs"):
        return
    seen.add(id(held))
    yield held
    names = list(getattr(held, "__dict__", {})) + list(getattr(type(held), "__slots__", ()))
    for value in (getattr(held, name, None) for name in names):
        for each in value.values() if isinstance(value, dict) else [value]:
            yield from everything(each, seen)
