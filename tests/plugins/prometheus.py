"""What Prometheus says of an answer, and its programs."""

from __future__ import annotations

import io
import shutil
import subprocess

import pytest
from prometheus_client.openmetrics.parser import text_fd_to_metric_families

from spark_jobs.metrics.metric import PREFIX

needs_prometheus = pytest.mark.skipif(
    shutil.which("promtool") is None or shutil.which("prometheus") is None,
    reason="prometheus is not installed (Debian: apt-get install prometheus)",
)
Labels = frozenset[tuple[str, str]]
Values = dict[tuple[str, Labels], float]


def values(body: str) -> Values:
    """The samples of an answer in OpenMetrics, by name without the prefix, and labels; no two are of one series."""
    found: Values = {}
    for family in text_fd_to_metric_families(io.StringIO(body)):
        for sample in family.samples:
            key = of(sample.name.removeprefix(PREFIX), **sample.labels)
            assert key not in found
            found[key] = sample.value
    return found


def of(name: str, **labels: str) -> tuple[str, Labels]:
    """The key of a series."""
    return name, frozenset(labels.items())


def promtool(*arguments: str, text: bytes = b"") -> None:
    """Run a check of promtool, which must find nothing."""
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b""), done.stdout + done.stderr
