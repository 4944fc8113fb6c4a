"""Choose the suspected messages of a cluster from the published marts, and look them up at the brokers; without Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from pyiceberg.catalog import Catalog
from pyiceberg.expressions import And, EqualTo, In, NotNull, Reference
from pyiceberg.expressions.literals import literal

from spark_jobs.broker_facts import store
from spark_jobs.broker_facts.check_messages import Checked, check_messages
from spark_jobs.broker_facts.collect import Collection
from spark_jobs.broker_facts.fact_tables import Row, is_beyond_pulled
from spark_jobs.broker_facts.known_facts import KnownFacts, without_prefixes
from spark_jobs.broker_facts.message_state import FINAL
from spark_jobs.broker_facts.suspects import Suspect, read_offset_ids, read_suspects
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import CONSUMERS, GROUP_OFFSETS, MESSAGE_CHECKS, SUBSCRIPTIONS
from spark_jobs.rocketmq.cluster_connections import ClusterConnections
from spark_jobs.settings import BrokerFacts, Settings


def check_suspects(
    settings: Settings,
    connections: ClusterConnections,
    collection: Collection,
    is_erased: Callable[[str], bool] = lambda group: False,
    is_message_erased: Callable[[str], bool] = lambda msg_id: False,
) -> Checked:
    """Choose and look up; reads tables and writes none.

    Args:
        settings: of the lake, and the limits.
        connections: to the cluster.
        collection: that was saved, with whose facts the messages are judged.
        is_erased: whether nothing may be stored of a group.
        is_message_erased: whether nothing may be stored of a message id.

    Raises:
        RocketMQError: no nameserver answers.
    """
    catalog, limits, now = lake(settings), settings.broker_facts, collection.observed_at
    cluster = collection.cluster
    checked = _CheckedBefore(catalog, collection, limits)

    def is_left_out(topic: str, msg_id: str, group: str | None) -> bool:
        erased = is_message_erased(msg_id) or (group is not None and is_erased(group))
        return erased or checked.is_settled(topic, msg_id, group)

    moved = {
        without_prefixes(row["group_name"])
        for row in collection.found[GROUP_OFFSETS.name].rows
        if any(map(is_beyond_pulled, row["queues"]))
    }
    suspects = read_suspects(
        catalog, cluster, now, limits.checked_hours, limits.checked_messages, is_left_out, moved
    )
    if not suspects:
        return Checked([], [])
    offset_ids = read_offset_ids(catalog, cluster, suspects)
    facts = KnownFacts(
        collection,
        store.current_rows(catalog, SUBSCRIPTIONS, cluster),
        _message_models(catalog, collection, suspects),
    )
    return check_messages(connections, facts, suspects, offset_ids, limits, is_erased)


def _message_models(
    catalog: Catalog, collection: Collection, suspects: list[Suspect]
) -> dict[tuple[str, str], str]:
    """(broker, group) to its last known model: a group that is offline has none, so its history is read."""
    consumers = collection.found[CONSUMERS.name].rows
    online = {
        (row["broker"], row["group_name"]): row["message_model"] for row in consumers if row["message_model"]
    }
    suspected = {each.group for each in suspects}
    offline = {
        row["group_name"]
        for row in consumers
        if not row["online"] and (None in suspected or without_prefixes(row["group_name"]) in suspected)
    }
    if not offline:
        return online
    known = catalog.load_table(CONSUMERS.name).scan(
        And(
            EqualTo(term=Reference("cluster"), value=literal(collection.cluster)),
            In(term=Reference("group_name"), values={literal(group) for group in offline}),
            NotNull(term=Reference("message_model")),
        ),
        selected_fields=("broker", "group_name", "message_model", "valid_from"),
    )
    in_order = sorted(known.to_arrow().to_pylist(), key=lambda row: row["valid_from"])
    return {(row["broker"], row["group_name"]): row["message_model"] for row in in_order} | online


class _CheckedBefore:
    """Which messages need no look-up now: their state does not change any more, or they were looked up lately.

    The table is read only when there is a suspect.
    """

    def __init__(self, catalog: Catalog, collection: Collection, limits: BrokerFacts):
        self._catalog, self._collection = catalog, collection
        # A message stays a suspect for `checked_hours` after its publication.
        self._since = collection.observed_at - timedelta(hours=limits.checked_hours + 1)
        self._lately = collection.observed_at - timedelta(minutes=limits.recheck_minutes)
        self._rows: dict[tuple[str, str], list[Row]] | None = None

    def is_settled(self, topic: str, msg_id: str, group: str | None) -> bool:
        """Whether the message is left out for the group, or for the groups that it was looked up for if that is None."""
        if self._rows is None:
            self._rows = self._read()
        rows = self._rows.get((topic, msg_id), [])
        of_group = rows if group is None else [row for row in rows if row["consumer_group"] == group]
        return (
            bool(of_group)
            and all(row["state"] in FINAL or row["is_stored"] is False for row in self._newest(of_group))
            or any(row["checked_at"] > self._lately for row in of_group)
        )

    @staticmethod
    def _newest(rows: list[Row]) -> list[Row]:
        newest = max(row["checked_at"] for row in rows)
        return [row for row in rows if row["checked_at"] == newest]

    def _read(self) -> dict[tuple[str, str], list[Row]]:
        rows = store.scan(
            self._catalog.load_table(MESSAGE_CHECKS.name),
            f"cluster = '{self._collection.cluster}' and checked_at >= '{self._since.isoformat()}'",
            ["topic", "msg_id", "consumer_group", "state", "is_stored", "checked_at"],
        ).to_pylist()
        found: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            found.setdefault((row["topic"], row["msg_id"]), []).append(row)
        return found
