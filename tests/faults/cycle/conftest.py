"""The world of `tests/faults/jobs` once more, with a broker, a Java client and a session of its own: in another process."""

from tests.faults.jobs.conftest import broker, filled, java, world

__all__ = ["broker", "filled", "java", "world"]
