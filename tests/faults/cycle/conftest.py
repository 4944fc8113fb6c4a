"""The world of `tests/faults/jobs` once more, with a broker, a Java client and a session of its own: in another process."""

from collections.abc import Iterator

import pytest

from tests.faults.jobs.conftest import broker, filled, java, world
from tests.planning import without_data_tests
from tests.soak import IS_SOAK

__all__ = ["broker", "filled", "java", "world"]

collect_ignore = [] if IS_SOAK else ["test_rebuild_killed.py"]


@pytest.fixture(scope="package", autouse=True)
def no_data_tests() -> Iterator[None]:
    with without_data_tests():
        yield
