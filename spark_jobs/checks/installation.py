"""Checks of the installation on this machine, run by the supervisor of `make up`, which imports neither Spark nor the lake."""

from __future__ import annotations

from collections.abc import Iterator

from spark_jobs.checks import disk
from spark_jobs.checks.check import Check, Measured, Run


def _by_the_supervisor(run: Run) -> Iterator[Measured]:
    """Measured by `deploy/installation_alerts.py`."""
    return iter(())


DISK_SPACE = Check(
    *("disk_space", "installation", "freshness", "critical", "pipeline", "watchdog"),
    "too small a share of a disk is free: of the one of `TRACE_HOME`, a local warehouse or temporary files",
    disk.disk_space,
    "disk_free_share",
    "below",
    title="only {value} of the disk of the {entity} is free",
    unit="share",
)
AIRFLOW_COMPONENT = Check(
    *("airflow_component", "installation", "freshness", "critical", "pipeline", "supervisor"),
    "a component of Airflow that `make up` keeps running ends again and again, or does not answer for minutes",
    _by_the_supervisor,
    title="Airflow's {entity} does not run: {detail}",
)
WATCHDOG_SILENT = Check(
    *("watchdog_silent", "installation", "freshness", "critical", "pipeline", "supervisor"),
    "`trace_watchdog` has not run for so many of its intervals",
    _by_the_supervisor,
    "watchdog_silent_intervals",
    title="the watchdog has not run for {value} of its intervals",
)
