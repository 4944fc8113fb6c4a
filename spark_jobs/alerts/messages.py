"""The link of an alert on messaging to the messages that it is about: a search with its entity and time filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from spark_jobs.checks.entity import parts
from spark_jobs.lookup.address import minute, of_search
from spark_jobs.settings import Settings, pages_url

# Clients write the names in traces as they like; a longer link helps nobody.
LONGEST = 1000
_FIELDS = ("cluster", "topic", "group")
# The state of the messages that a check counts.
_STATES = dict.fromkeys(("orphan_rate", "orphans_proven"), "orphaned")


class HasEntity(Protocol):
    """What the link needs of an alert."""

    @property
    def check(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def entity(self) -> str | None: ...
    @property
    def last_seen_at(self) -> datetime: ...


@dataclass(frozen=True)
class About:
    """The least of an alert: its check, class, entity, and newest failure."""

    check: str
    kind: str
    entity: str | None
    last_seen_at: datetime


@dataclass(frozen=True)
class MessagesPage:
    """The page that searches messages.

    Attributes:
        pages: address of the plugin's pages.
        window: the checks look at messages of this long before now.
    """

    pages: str
    window: timedelta

    @classmethod
    def of(cls, settings: Settings) -> MessagesPage | None:
        """The page in Airflow; None where `AIRFLOW__API__BASE_URL` does not say where that is."""
        pages = pages_url()
        return cls(pages, timedelta(hours=settings.checks.window_hours)) if pages else None

    def link(self, alerts: Sequence[HasEntity]) -> str | None:
        """The search that finds the messages of all these alerts of one check; None if it is not about messages."""
        # The checks import Spark. The supervisor of Airflow sends alerts without it: none of its own is about messages.
        if alerts[0].kind != "messaging":
            return None
        from spark_jobs.checks.registry import BY_NAME

        check = BY_NAME.get(alerts[0].check)
        if check is None or check.route != "messaging":
            return None
        entities = [parts(check, alert.entity) for alert in alerts]
        shared = {name: entities[0].get(name, "") for name in _FIELDS}
        shared = {name: v for name, v in shared.items() if all(each.get(name) == v for each in entities)}
        seen = [_naive(alert.last_seen_at) for alert in alerts]
        conditions = {
            **shared,
            "state": _STATES.get(check.name, ""),
            "from_": minute(min(seen) - self.window),
            "to": minute(max(seen), is_end=True),
        }
        link = self.pages + of_search(**conditions)
        return link if len(link) <= LONGEST else None


def _naive(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time
