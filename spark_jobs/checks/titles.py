"""The title of an alert: where, what is wrong, and the value against the limit."""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.checks.check import COULD_NOT_BE_CHECKED, QUEUE_ENTITY, Check, Result
from spark_jobs.checks.entity import parts
from spark_jobs.checks.formatting import amount, printable

# Longer names and reasons are truncated; the description has them in full.
LONGEST_NAME = 80
LONGEST_REASON = 200
LONGEST = 300

_LABELS = {QUEUE_ENTITY: "{topic} ({broker}, queue {queue})", "cluster": ""}


def title(check: Check, result: Result, environment: str) -> str:
    """The line that on-call reads first, such as `prod: 48,211 messages wait on RMQ_SYS_TRACE_TOPIC, limit 10,000`.

    The cluster follows the environment if its name differs: `prod/east: …`.
    """
    names = _names(check, result.entity)
    where = [printable(environment, LONGEST_NAME)]
    if (cluster := names.get("cluster")) and cluster != where[0]:
        where.append(cluster)
    return printable(f"{'/'.join(where)}: {_what(check, result, names)}", LONGEST)


def _what(check: Check, result: Result, names: Mapping[str, str]) -> str:
    reason = printable(result.detail.removeprefix(COULD_NOT_BE_CHECKED), LONGEST_REASON)
    reason = reason or "no reason was given"
    if result.value is None and not result.never:
        of = f" of {names['entity']}" if names["entity"] else ""
        return f"could not be checked: {check.name}{of}: {reason}"
    if result.value is None:
        return f"{check.name}: {reason}{_limit(check, result)}"
    value = amount(result.value, check.unit)
    if value == amount(result.threshold, check.unit) and result.value != result.threshold:
        value = f"{'just over' if result.value > result.threshold else 'just under'} {value}"
    if check.title is None:
        of = f" {names['entity']}:" if names["entity"] else ""
        return f"{check.name}:{of} {value}{_limit(check, result)}: {check.definition}"
    return check.title.format(**names, value=value, detail=reason) + _limit(check, result)


def _limit(check: Check, result: Result) -> str:
    """The limit; empty for a check whose limit is always 0."""
    if check.limit is None and not result.threshold:
        return ""
    return f", {'limit' if check.fails == 'above' else 'minimum'} {amount(result.threshold, check.unit)}"


def _names(check: Check, entity: str | None) -> dict[str, str]:
    """The parts of an entity by name, and `entity`: the entity without its cluster."""
    shown = printable(entity or "", LONGEST_NAME)
    fields = check.entity.split("/") if check.entity else []
    names = {name: printable(value, LONGEST_NAME) for name, value in parts(check, entity).items()}
    if not fields or len(names) != len(fields):  # a check of queues may also report a cluster
        return {**dict.fromkeys(fields, shown), **names, "entity": "" if names else shown}
    label = _LABELS.get(check.entity or "")
    if label is None:
        return names | {"entity": "/".join(names[field] for field in fields if field != "cluster")}
    return names | {"entity": label.format(**names)}
