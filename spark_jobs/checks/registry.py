"""All checks. `make checks` generates docs/checks.md from them."""

from __future__ import annotations

from spark_jobs.checks import build, disk, installation, marts, records, service, writers
from spark_jobs.checks.check import Check, Stage
from spark_jobs.settings import Settings

BY_NAME = {
    value.name: value
    for module in (records, writers, build, marts, service, disk, installation)
    for value in vars(module).values()
    if isinstance(value, Check)
}
CHECKS = tuple(BY_NAME.values())


def of_stage(settings: Settings, *stages: Stage) -> list[Check]:
    """The checks of these stages that are not switched off.

    Raises:
        ValueError: the settings name an unknown check.
    """
    named = {*settings.checks.off, *settings.checks.severity}
    named |= {key.partition(":")[0] for key in settings.checks.of_entity}
    if unknown := sorted(named - set(BY_NAME)):
        raise ValueError(
            f"the settings (checks) name unknown checks: {', '.join(unknown)}. Known are {', '.join(BY_NAME)}"
        )
    return [check for check in CHECKS if check.stage in stages and check.name not in settings.checks.off]
