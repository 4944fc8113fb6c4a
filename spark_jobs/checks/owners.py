"""Which team owns an entity of a check: the rows of the seed `owners`.

The file of the seed is read, not its table: the watchdog starts no Spark, and alerts when the lake is away.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from spark_jobs.checks.check import Check
from spark_jobs.checks.entity import parts
from spark_jobs.settings import PROJECT, Severity

SEED = PROJECT / "dbt_project" / "seeds" / "owners.csv"
_COLUMNS = ("cluster", "topic", "consumer_group", "team", "severity", "route")
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # the most severe first


@dataclass(frozen=True)
class Owner:
    """A row of the seed.

    Attributes:
        team: who owns the topic or consumer group.
        severity: the most severe that its alerts are; None for that of the check.
        route: where its alerts go; None for the route of the check.
    """

    team: str
    severity: Severity | None = None
    route: str | None = None

    def lowered(self, severity: Severity) -> Severity:
        """The severity of an alert. It is never raised: a critical alert needs proof, which the check knows."""
        return max(severity, self.severity or severity, key=SEVERITIES.index)


@dataclass(frozen=True)
class Owners:
    """The owners by cluster and consumer group, and by cluster and topic."""

    of_group: Mapping[tuple[str, str], Owner] = field(default_factory=dict)
    of_topic: Mapping[tuple[str, str], Owner] = field(default_factory=dict)

    @property
    def routes(self) -> set[str]:
        """The routes that rows name."""
        return {owner.route for owner in (*self.of_group.values(), *self.of_topic.values()) if owner.route}

    def of(self, check: Check, entity: str | None) -> Owner | None:
        """The owner of the entity's consumer group, or else of its topic; None if it has neither, or no owner."""
        if check.kind != "messaging":  # freshness and integrity are the warehouse's own
            return None
        named = parts(check, entity)
        cluster = named.get("cluster", "")
        of_group = self.of_group.get((cluster, named.get("group", "")))
        return of_group or self.of_topic.get((cluster, named.get("topic", "")))


NO_OWNERS = Owners()


def read(file: Path | None = None) -> Owners:
    """Read the seed; none if there is no file.

    Raises:
        ValueError: a column is missing or a row is invalid; the message names the file, the line and what to write.
    """
    file, found = file or SEED, Owners({}, {})
    if not file.exists():
        return found
    with file.open(newline="") as rows:
        reader = csv.DictReader(rows)
        if missing := [name for name in _COLUMNS if name not in (reader.fieldnames or ())]:
            raise ValueError(f"{file.name}: the header lacks {', '.join(missing)}")
        for row in reader:
            where = f"{file.name}, line {reader.line_num}, {row['topic'] or row['consumer_group']}"
            if bool(row["topic"]) == bool(row["consumer_group"]) or not row["team"] or not row["cluster"]:
                raise ValueError(
                    f"{where}: a row has a cluster, a team, and either a topic or a consumer_group"
                )
            if row["severity"] and row["severity"] not in SEVERITIES:
                raise ValueError(f"{where}: severity is {', '.join(SEVERITIES)} or empty")
            owner = Owner(row["team"], row["severity"] or None, row["route"] or None)  # type: ignore[arg-type]
            owners = found.of_topic if row["topic"] else found.of_group
            owners[row["cluster"], row["topic"] or row["consumer_group"]] = owner  # type: ignore[index]
    return found
