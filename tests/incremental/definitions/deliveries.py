"""Deliveries of a message to a consumer group, and those that the group gave up."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta

from tests.incremental.cluster import (
    ENDED_WELL,
    Cluster,
    Key,
    Record,
    Rows,
    consume_timeout,
    grace,
    hour_of,
    max_delay,
)
from tests.incremental.definitions.broadcasting import inferred_broadcast_groups, is_broadcast
from tests.incremental.definitions.lookups import last_check
from tests.incremental.definitions.records import ms_between, nulls_first
from tests.incremental.definitions.sends import publications


def deliveries(cluster: Cluster, sent: Rows, attempted: Rows) -> Rows:
    """One row per message and consumer group; of a broadcast group one per client."""
    inferred, published = inferred_broadcast_groups(cluster, attempted), publications(sent)
    delivered_from: dict[Key, datetime] = {}
    for (_, msg_id), attempt in attempted.items():
        key, at = (msg_id, attempt["consumer_group"]), attempt["occurred_at"]
        delivered_from[key] = min(at, delivered_from.get(key, at))
    broadcast = {
        key for key, at in delivered_from.items() if key[1] and is_broadcast(cluster, key[1], at, inferred)
    }
    folded: dict[Key, list[Record]] = defaultdict(list)
    for (request_id, msg_id), attempt in attempted.items():
        group = attempt["consumer_group"]
        if group is not None and msg_id is not None:
            client = attempt["client"] if (msg_id, group) in broadcast else None
            folded[msg_id, group, client].append(attempt | {"request_id": request_id})
    history_from = min((a["occurred_at"] for a in attempted.values()), default=None)
    found: Rows = {}
    for (msg_id, group, client), of_delivery in folded.items():
        is_of_broadcast = (msg_id, group) in broadcast

        def number(attempt: Record, of_delivery: list[Record] = of_delivery) -> int:
            earlier = [a for a in of_delivery if a["occurred_at"] <= attempt["occurred_at"]]
            known = [a["retry_times"] for a in earlier if a["retry_times"] is not None]
            return int(
                attempt["retry_times"] if attempt["retry_times"] is not None else max(known, default=0)
            )

        def order(attempt: Record) -> Key:
            return (
                number(attempt),
                attempt["occurred_at"],
                nulls_first(attempt["request_id"]),
                attempt["outcome"],
                nulls_first(attempt["client"]),
            )

        first, last = min(of_delivery, key=order), max(of_delivery, key=order)
        ended = [(a, _finished_at(a)) for a in of_delivery]
        successes = [(at, _is_client_time(a)) for a, at in ended if a["outcome"] in ENDED_WELL and at]
        succeeded_at, ended_by_client = min(successes, default=(None, False))
        last_seen_at = max(at or a["occurred_at"] for a, at in ended)
        limit = 0 if is_of_broadcast else cluster.limits.max_retry_times
        publication = published.get(msg_id)
        said = _look_up(cluster, publication, msg_id, group, of_delivery) if not is_of_broadcast else None
        said_at, state = said or (None, None)
        is_dead, is_waiting = state == "dead_letter", state == "retrying"
        alive_at = max(last_seen_at, said_at) if is_waiting and said_at else last_seen_at
        given_up_at = alive_at + max_delay(cluster) + grace(cluster)
        is_last_retry = number(last) >= limit and not is_waiting
        if any(a["outcome"] in ENDED_WELL for a in of_delivery):
            outcome = "succeeded"
        elif is_dead:
            outcome = "exhausted"
        elif last["outcome"] in ("in_flight", "not_returned"):
            outcome = last["outcome"]
        elif is_last_retry or cluster.watermark >= given_up_at:
            outcome = "exhausted"
        else:
            outcome = "retrying"
        inferred_at = last_seen_at if is_last_retry else given_up_at
        is_open = last["outcome"] in ("in_flight", "not_returned")
        proven_at = said_at if is_open or said_at is None else min(said_at, inferred_at)
        decided_at = {
            "succeeded": succeeded_at or last["occurred_at"],
            "not_returned": last["occurred_at"] + consume_timeout(cluster) + grace(cluster),
            "exhausted": proven_at if is_dead else inferred_at,
        }
        sent_by_client = publication is not None and publication["hour_source"] == "event_time"
        retries = [a["retry_times"] for a in of_delivery if a["retry_times"] is not None]
        unknown = not first["has_begin"] or number(first) > 0 or first["outcome"] == "in_flight"
        found[msg_id, group, client] = {
            "topic": publication["topic"] if publication else None,
            "is_broadcast": is_of_broadcast,
            "outcome": outcome,
            "outcome_evidence": None if outcome != "exhausted" else "proven" if is_dead else "inferred",
            "is_first_attempt_success": None if unknown else first["outcome"] == "success",
            "attempts": len(of_delivery),
            "retries": 0 if is_of_broadcast else max(retries, default=0),
            "duplicates": 0
            if is_of_broadcast
            else sum(
                max(times - (publication["sends"] if publication else 1), 0)
                for times in Counter(retries).values()
            ),
            "first_attempt_at": first["occurred_at"],
            "last_attempt_at": last["occurred_at"],
            "last_attempt_outcome": last["outcome"],
            "last_attempt_client": last["client"],
            "succeeded_at": succeeded_at,
            "decided_at": decided_at.get(outcome),
            "hour": first["hour"],
            "is_published": publication is not None,
            "published_at": publication["sent_at"] if publication else None,
            "queue_wait_ms": ms_between(first["begun_at"], publication["sent_at"])
            if publication and sent_by_client and first["hour_source"] == "event_time" and first["begun_at"]
            else None,
            "end_to_end_ms": ms_between(succeeded_at, publication["sent_at"])
            if publication and sent_by_client and succeeded_at and ended_by_client
            else None,
            "unpublished_cause": None
            if publication
            else _unpublished_cause(cluster, msg_id, first["occurred_at"], history_from),
        }
    return found


def _look_up(
    cluster: Cluster, publication: Record | None, msg_id: str, group: str, of_delivery: list[Record]
) -> tuple[datetime, str] | None:
    """Time and state of the last look-up of the message for the group; None if an attempt was begun after it."""
    at, check = last_check(cluster, publication["topic"] if publication else "", msg_id, group)
    if at is None or check is None or any(attempt["occurred_at"] > at for attempt in of_delivery):
        return None
    return at, check.state


def _finished_at(attempt: Record) -> datetime | None:
    if attempt["ended_at"] is not None:
        return attempt["ended_at"]
    if attempt["begun_at"] is None or attempt["stated_cost_ms"] is None or attempt["stated_cost_ms"] < 0:
        return None
    return attempt["begun_at"] + timedelta(milliseconds=int(attempt["stated_cost_ms"]))


def _is_client_time(attempt: Record) -> bool:
    """Whether the end of an attempt is a time of the client: the SubAfter's, or that of its SubBefore and the cost."""
    return attempt["ended_at"] is not None or (
        attempt["has_begin"] and attempt["hour_source"] == "event_time"
    )


def _unpublished_cause(cluster: Cluster, msg_id: str, first: datetime, history_from: datetime | None) -> str:
    horizon = timedelta(seconds=cluster.limits.retry_horizon_seconds) + max_delay(cluster)
    if history_from is not None and first < history_from + horizon:
        return "before_history"
    return "grpc_producer" if msg_id.startswith("01") and len(msg_id) == 34 else "untraced_send"


def dead_letters(cluster: Cluster, messages: Rows, delivered: Rows) -> Rows:
    """One row per message and group that gave it up."""
    of_delivery = ("attempts", "retries", "last_attempt_at", "last_attempt_outcome", "last_attempt_client")
    looked_up = {(c.topic, c.msg_id, c.group) for each in cluster.collections for c in each.checks}
    found: Rows = {}
    for topic, msg_id, group in looked_up:
        at, check = last_check(cluster, topic, msg_id, group)
        is_attempted = any(key[:2] == (msg_id, group) for key in delivered)
        if check and check.state == "dead_letter" and (topic, msg_id) in messages and not is_attempted:
            published_at = messages[topic, msg_id]["published_at"]
            found[topic, msg_id, group] = dict.fromkeys(of_delivery) | {
                "evidence": "proven",
                "attempts": 0,
                "retries": 0,
                "published_at": published_at,
                "decided_at": at,
                "checked_at": at,
                "hour": hour_of(published_at),
            }
    for (msg_id, group, _), row in delivered.items():
        if row["outcome"] == "exhausted" and not row["is_broadcast"]:
            at, _ = last_check(cluster, row["topic"], msg_id, group)
            found[row["topic"], msg_id, group] = {
                **{column: row[column] for column in (*of_delivery, "published_at", "decided_at")},
                "evidence": row["outcome_evidence"],
                "checked_at": at,
                "hour": hour_of(row["published_at"]) if row["published_at"] else row["hour"],
            }
    return found
