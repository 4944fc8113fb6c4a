"""The package rocketmq-client-python with its native library, for tests of the client of that name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.native_library import NoLibraryError, environment, fetch
from spark_jobs.rocketmq.message import Message


def package() -> Path:
    """The folder of the package; a test is skipped, in CI failed, where it cannot be had."""
    try:
        return fetch()
    except NoLibraryError as error:
        pytest.skip(f"NO TEST OF rocketmq-client-python: {error}")


def package_or_none() -> Path | None:
    """The folder of the package; None where it cannot be had. A test of what it is for calls `package`, too."""
    try:
        return fetch()
    except NoLibraryError:
        return None


def importable() -> Iterator[Path]:
    """Until the generator ends, this process and those that it starts can import the package; yield its folder."""
    folder = package()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", environment(folder)["PYTHONPATH"])
        patch.syspath_prepend(str(folder))
        yield folder


def differences(ours: Message, theirs: Message) -> dict[str, tuple[object, object]]:
    """Field to both values where they differ; the library sorts the properties by name."""
    one, other = (each._asdict() | {"properties": dict(each.properties)} for each in (ours, theirs))
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}
