"""The parts of the entity that a check measures."""

from __future__ import annotations

from spark_jobs.checks.check import Check


def parts(check: Check, entity: str | None) -> dict[str, str]:
    """The parts of an entity by name, as in `Check.entity`.

    Only `cluster` for a cluster that a check of something smaller reports, such as one that does not answer; none if the
    entity has no parts.
    """
    names = check.entity.split("/") if check.entity else []
    values = (entity or "").split("/", max(0, len(names) - 1))
    if not names or not entity:
        return {}
    if len(names) == len(values):
        return dict(zip(names, values, strict=True))
    return {"cluster": entity} if names[0] == "cluster" and len(values) == 1 else {}
