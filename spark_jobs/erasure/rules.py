"""The erasure rules: what must not be in the warehouse, as salted hashes in `lake.ops.erasures`."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from spark_jobs.lake import catalog
from spark_jobs.lake.tables import ERASURES
from spark_jobs.settings import Settings

if TYPE_CHECKING:  # the rules are read without Spark
    from pyspark.sql import SparkSession


class Kind(StrEnum):
    """What identifies the erased messages: a user key, a producer or consumer group, a message id."""

    KEY = "key"
    GROUP = "group"
    MSG_ID = "msg_id"


@dataclass(frozen=True)
class Rule:
    """A rule: records of the cluster with a text of this hash in a field of the kind are erased."""

    cluster: str
    kind: Kind
    salt: str
    digest: str


def named(kind: Kind, text: str) -> str:
    """Normalise the text for comparison: groups without `%RETRY%`, `%DLQ%` and namespace.

    Raises:
        ValueError: the text cannot be a key, group or message id.
    """
    name = text.rpartition("%")[2] if kind is Kind.GROUP else text
    if not name or any(sign in name for sign in " ,\x01\x02"):
        raise ValueError(f"{text!r} is not a {kind.value}: it is empty, or contains a space or a comma")
    return name


def digest(salt: str, text: str) -> str:
    return hashlib.sha256((salt + text).encode()).hexdigest()


def rules_of(settings: Settings, cluster: str | None = None, is_complete: bool | None = None) -> list[Rule]:
    """The rules of a cluster, or of all clusters; read without Spark, which is cheap if there are none.

    With `is_complete` only those whose erasure is complete, or only those whose erasure is not.
    """
    try:
        rows = catalog.lake(settings).load_table(ERASURES.name).scan().to_arrow().to_pylist()
    except NoSuchTableError:
        return []
    found = [
        Rule(row["cluster"], Kind(row["kind"]), row["salt"], row["digest"])
        for row in rows
        if is_complete in (None, row["completed_at"] is not None)
    ]
    return sorted({r for r in found if cluster in (None, r.cluster)}, key=lambda r: (r.kind, r.digest))


def is_group_erased(rules: Sequence[Rule], group: str) -> bool:
    """Whether a rule erases the group, by its name with or without prefix and namespace."""
    of_groups = [rule for rule in rules if rule.kind is Kind.GROUP]
    name = group.rpartition("%")[2]
    return any(digest(rule.salt, name) == rule.digest for rule in of_groups)


def is_message_erased(rules: Sequence[Rule], msg_id: str) -> bool:
    """Whether a rule erases the message id."""
    return any(rule.kind is Kind.MSG_ID and digest(rule.salt, msg_id) == rule.digest for rule in rules)


def add_rule(
    spark: SparkSession, settings: Settings, cluster: str, kind: Kind, text: str, run_id: str
) -> Rule:
    """Record the rule unless it exists; every later extraction applies it. All rules share one salt."""
    known = rules_of(settings)
    salt = known[0].salt if known else secrets.token_hex(16)
    rule = Rule(cluster, kind, salt, digest(salt, named(kind, text)))
    store(spark, settings, rule, run_id)
    return rule


def store(spark: SparkSession, settings: Settings, rule: Rule, run_id: str) -> None:
    """Record a rule unless it exists."""
    if rule not in rules_of(settings):
        row = (rule.cluster, rule.kind.value, rule.salt, rule.digest, datetime.now(UTC), None, 0, 0, run_id)
        spark.createDataFrame([row], ERASURES.schema).coalesce(1).writeTo(ERASURES.full_name).append()


def add_counts(spark: SparkSession, rule: Rule, messages: int, records: int) -> None:
    """Add to the counts of what the rule has removed from raw."""
    _update(spark, rule, f"messages = messages + {messages}, records = records + {records}")


def complete(spark: SparkSession, rule: Rule) -> None:
    """Record that no live snapshot contains it any more."""
    _update(spark, rule, f"completed_at = timestamp '{datetime.now(UTC):%Y-%m-%d %H:%M:%S}'")


def _update(spark: SparkSession, rule: Rule, what: str) -> None:
    spark.sql(
        f"update {ERASURES.full_name} set {what} "
        "where cluster = :cluster and kind = :kind and digest = :digest",
        args={"cluster": rule.cluster, "kind": rule.kind.value, "digest": rule.digest},
    )
