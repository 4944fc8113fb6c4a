"""docs/definitions.md in plain Python: the facts and two marts of one cluster, made from its records in one go.

Written from the sentences there, not from the models. Each table is a dictionary from its key to the columns compared.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import Any

from tests.incremental.broadcasting import inferred_broadcast_groups, is_broadcast
from tests.incremental.cluster import (
    DAY_MS,
    ENDED_WELL,
    STATES,
    Cluster,
    Key,
    Record,
    Rows,
    consume_timeout,
    decision,
    grace,
    hour_of,
    max_delay,
    name,
    present,
)
from tests.incremental.coverage import trace_coverage, untraced_clients
from tests.incremental.orphans import due_at, expected_groups, last_check, orphan_rate, orphans


def tables(cluster: Cluster) -> dict[str, Rows]:
    """All tables that are compared, by name."""
    found: dict[str, Rows] = {"fct_sends": sends(cluster)}
    messages = _messages(found["fct_sends"])
    found["fct_consume_attempts"] = attempts(cluster, found["fct_sends"])
    found["fct_deliveries"] = deliveries(cluster, found["fct_sends"], found["fct_consume_attempts"])
    ends = _transaction_ends(cluster)
    found["fct_transactions"] = transactions(cluster, messages, ends)
    recalled = {
        present(r["msg_id"]) for r in _of_type(cluster, "Recall") if r["success"] and present(r["msg_id"])
    }
    for message in messages.values():
        message["due_at"] = due_at(cluster, message, ends.get(message["msg_id"]))
    expected = expected_groups(cluster, messages, found["fct_consume_attempts"])
    found["orphaned_messages"] = orphans(
        cluster, messages, found["fct_consume_attempts"], ends, recalled, expected
    )
    found["dead_letters"] = dead_letters(cluster, messages, found["fct_deliveries"])
    found["fct_messages"] = message_states(messages, found)
    found["consumer_group_success"] = consumer_group_success(found)
    found["orphan_rate"] = orphan_rate(cluster, messages, expected, found["orphaned_messages"])
    found["trace_volume"] = trace_volume(cluster)
    found["trace_coverage"] = trace_coverage(cluster, messages, found, ends, recalled)
    found["untraced_clients"] = untraced_clients(cluster, found)
    return found


# ---- records ------------------------------------------------------------------------------------


def time_of(record: Record) -> tuple[datetime, str]:
    """The record's time, and where it is from."""
    if record["event_time"] is not None and not record["event_time_suspect"]:
        return record["event_time"], "event_time"
    return record["store_time"], "store_time"


def made_by_go(an_id: str | None) -> bool:
    """Whether the Go client made the id, or the first of several."""
    return re.match("[0-9A-F]{12}0{8}[0-9a-f]{12}(,|$)", an_id or "") is not None


def sent_by_go(record: Record) -> bool:
    """Whether the Go client wrote the Pub; a batch of its has no ids but the broker's."""
    return made_by_go(record["msg_id"]) or (record["msg_id"] == "" and "," in (record["offset_msg_id"] or ""))


def sent_time(record: Record) -> tuple[datetime, str]:
    """When the send of a Pub began, and where that is from: Go writes when it ended."""
    time, source = time_of(record)
    cost = record["cost_ms"]
    if source == "event_time" and sent_by_go(record) and cost is not None and 0 <= cost <= DAY_MS:
        return time - timedelta(milliseconds=int(cost)), source
    return time, source


def _place(record: Record) -> Key:
    return (
        record["store_time"],
        *(record[n] for n in ("trace_topic", "broker", "queue_id", "epoch", "queue_offset", "record_index")),
    )


def _of_type(cluster: Cluster, record_type: str) -> list[Record]:
    return sorted((r for r in cluster.records if r["record_type"] == record_type), key=_place)


def _nulls_first(*values: Any) -> Key:
    return tuple((value is not None, value) if value is not None else (False,) for value in values)


def _ms(later: datetime, earlier: datetime) -> int:
    return round((later - earlier) / timedelta(milliseconds=1))


# ---- sends and messages -------------------------------------------------------------------------


def sends(cluster: Cluster) -> Rows:
    """One row per send; a record that was stored twice is one row, its copies counted."""
    found: Rows = {}
    for record in _of_type(cluster, "Pub"):
        known_by = present(record["msg_id"]) or present(record["offset_msg_id"]) or ""
        offsets = (present(record["offset_msg_id"]) or "").split(",")
        ids = _ids_of_batch(known_by, offsets) or ([known_by] if known_by else [])
        sent_at, source = sent_time(record)
        kind = "retry" if str(record["topic"]).startswith("%RETRY%") else "normal"
        for index, msg_id in enumerate(ids or [None]):
            offset = offsets[index] if index < len(offsets) else None
            key = (msg_id, offset or None, record["event_time"])
            if key in found:
                found[key]["copies"] += 1
                continue
            found[key] = {
                "sent_at": sent_at,
                "stored_at": record["store_time"],
                "hour_source": source,
                "topic": name(record["topic"]),
                "topic_kind": kind,
                "producer_group": name(record["group_name"]),
                "is_send_ok": record["success"],
                "cost_ms": record["cost_ms"],
                "msg_type": record["msg_type"],
                "batch_size": max(len(ids), 1),
                "tags": present(record["tags"]),
                "copies": 1,
            }
    return found


def _ids_of_batch(msg_ids: str, offsets: list[str]) -> list[str]:
    """The ids of a batch; none for an id with commas that a program has set."""
    ids = [each for each in msg_ids.split(",") if each]
    is_generated = all(re.fullmatch("[0-9A-Fa-f]{32}", each) for each in ids)
    return ids if "," in msg_ids and (is_generated or len(ids) == len([o for o in offsets if o])) else []


def _messages(sent: Rows) -> Rows:
    """One row per message id on a topic, described by its first send."""
    of_message: dict[Key, list[Record]] = defaultdict(list)
    for (msg_id, *_), send in sent.items():
        if msg_id is not None and send["topic_kind"] == "normal":
            of_message[send["topic"], msg_id].append(send)
    found: Rows = {}
    for (topic, msg_id), same in of_message.items():
        first = min(
            same,
            key=lambda s: _nulls_first(
                s["sent_at"], s["hour_source"], s["producer_group"], s["msg_type"], s["batch_size"], s["tags"]
            ),
        )
        found[topic, msg_id] = first | {
            "topic": topic,
            "msg_id": msg_id,
            "published_at": first["sent_at"],
            "sends": len(same),
        }
    return found


def _publications(sent: Rows) -> dict[str, Record]:
    """The first Pub of each message id, on whatever topic, and the number of its sends."""
    found: dict[str, Record] = {}
    number = Counter[str]()
    for (msg_id, offset_msg_id, _), send in sent.items():
        if msg_id is None or send["topic_kind"] != "normal":
            continue
        number[msg_id] += 1
        key = _nulls_first(
            send["sent_at"], send["stored_at"], offset_msg_id, send["topic"], send["hour_source"]
        )
        if msg_id not in found or key < found[msg_id]["key"]:
            found[msg_id] = send | {"key": key}
    return {msg_id: send | {"sends": number[msg_id]} for msg_id, send in found.items()}


# ---- consumption --------------------------------------------------------------------------------


def attempts(cluster: Cluster, sent: Rows) -> Rows:
    """One row per listener call and message: its SubBefore and SubAfter."""
    begins, ends = _first_copies(cluster, "SubBefore"), _first_copies(cluster, "SubAfter")
    published = _publications(sent)
    together: dict[Key, set[str]] = defaultdict(set)
    for record in _of_type(cluster, "SubAfter"):
        if msg_id := present(record["msg_id"]):
            together[_call(record)].add(msg_id)
    found: Rows = {}
    for key in begins.keys() | ends.keys():
        begin, end = begins.get(key), ends.get(key)
        either = begin or end
        assert either is not None
        time, source = time_of(either)
        begun_at = time if begin else None
        ended_at = end["event_time"] if end and not end["event_time_suspect"] else None
        cost = None
        if begin and source == "event_time" and ended_at is not None and begun_at is not None:
            cost = float(_ms(ended_at, begun_at))
        elif end and (len(together[_call(end)]) <= 1 or made_by_go(end["request_id"])):
            cost = end["cost_ms"]
        begin_group, end_group = (name(r["group_name"]) if r else None for r in (begin, end))
        publication = published.get(key[1]) if key[1] is not None else None
        not_returned_at = begun_at and begun_at + consume_timeout(cluster) + grace(cluster)
        found[key] = {
            "consumer_group": begin_group if begin_group is not None else end_group,
            "client": either["born_host"],
            "topic": publication["topic"] if publication else None,
            "is_published": publication is not None,
            "begun_at": begun_at,
            "ended_at": ended_at,
            "occurred_at": time,
            "hour": hour_of(time),
            "hour_source": source,
            "retry_times": begin["retry_times"] if begin else None,
            "cost_ms": cost,
            "stated_cost_ms": end["cost_ms"] if end else None,
            "outcome": _outcome(cluster, end, not_returned_at),
            "has_begin": begin is not None,
            "has_end": end is not None,
            "begin_copies": begin["copies"] if begin else 0,
            "end_copies": end["copies"] if end else 0,
        }
    return found


def _call(end: Record) -> Key:
    """The records of one call in one trace message; without a request id each message is a call of its own."""
    call = present(end["request_id"]) or present(end["msg_id"])
    return (end["queue_offset"], call)


def _first_copies(cluster: Cluster, record_type: str) -> Rows:
    found: Rows = {}
    for record in _of_type(cluster, record_type):
        key = (present(record["request_id"]), present(record["msg_id"]))
        if key in found:
            found[key]["copies"] += 1
        else:
            found[key] = record | {"copies": 1}
    return found


def _outcome(cluster: Cluster, end: Record | None, not_returned_at: datetime | None) -> str:
    if end is None:
        assert not_returned_at is not None
        return "not_returned" if cluster.watermark >= not_returned_at else "in_flight"
    if not end["success"]:
        code = end["context_code"]
        return code if code in ("exception", "returned_null") else "failed"
    return "timeout" if end["context_code"] == "timeout" else "success"


def deliveries(cluster: Cluster, sent: Rows, attempted: Rows) -> Rows:
    """One row per message and consumer group; of a broadcast group one per client."""
    inferred, published = inferred_broadcast_groups(cluster, attempted), _publications(sent)
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
                _nulls_first(attempt["request_id"]),
                attempt["outcome"],
                _nulls_first(attempt["client"]),
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
            "queue_wait_ms": _ms(first["begun_at"], publication["sent_at"])
            if publication and sent_by_client and first["hour_source"] == "event_time" and first["begun_at"]
            else None,
            "end_to_end_ms": _ms(succeeded_at, publication["sent_at"])
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


# ---- transactions -------------------------------------------------------------------------------


def _transaction_ends(cluster: Cluster) -> dict[str, list[Record]]:
    """EndTransaction records of each message, copies left out, in the order in which they were decided."""
    seen: dict[str, dict[Key, Record]] = defaultdict(dict)
    for record in _of_type(cluster, "EndTransaction"):
        if msg_id := present(record["msg_id"]):
            decided_at, source = time_of(record)
            state = STATES[record["transaction_state"]]
            end = {
                "decided_at": decided_at,
                "hour_source": source,
                "state": state,
                "check": record["from_transaction_check"],
            }
            end["order"] = (decided_at, _place(record))
            key = (record["event_time"], state, record["from_transaction_check"])
            if key not in seen[msg_id] or end["order"] < seen[msg_id][key]["order"]:
                seen[msg_id][key] = end
    return {
        msg_id: sorted(of_message.values(), key=lambda e: e["order"]) for msg_id, of_message in seen.items()
    }


def transactions(cluster: Cluster, messages: Rows, ends: dict[str, list[Record]]) -> Rows:
    """One row per half message, or a message with an EndTransaction."""
    halves: dict[str, Record] = {}
    for (_, msg_id), message in messages.items():
        key = (
            message["msg_type"] != "half",
            *_nulls_first(
                message["published_at"],
                message["topic"],
                message["hour_source"],
                message["producer_group"],
                message["msg_type"],
            ),
        )
        if msg_id not in halves or key < halves[msg_id]["order"]:
            halves[msg_id] = message | {"order": key}
    found: Rows = {}
    for msg_id in halves.keys() | ends.keys():
        half, of_message = halves.get(msg_id), ends.get(msg_id, [])
        if not of_message and (half is None or half["msg_type"] != "half"):
            continue
        state = decision(of_message) or "undecided"
        begun_at = half["published_at"] if half else of_message[0]["decided_at"]
        found[(msg_id,)] = {
            "transaction_state": state,
            "is_half_seen": half is not None,
            "is_past_due": state in ("unknown", "undecided")
            and cluster.watermark >= begun_at + grace(cluster),
            "transaction_ends": len(of_message),
            "checks_answered": sum(bool(end["check"]) for end in of_message),
            "first_decision_at": of_message[0]["decided_at"] if of_message else None,
            "last_decision_at": of_message[-1]["decided_at"] if of_message else None,
            "hour": hour_of(begun_at),
        }
    return found


# ---- messages and marts -------------------------------------------------------------------------


def message_states(messages: Rows, found: dict[str, Rows]) -> Rows:
    """One row per message; what was consumed and has no Pub is a row with topic NULL."""
    of_message: dict[Key, dict[str | None, list[tuple[str | None, int, datetime | None]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for (msg_id, group, _), row in found["fct_deliveries"].items():
        of_message[row["topic"], msg_id][group].append((row["outcome"], row["attempts"], row["succeeded_at"]))
    for (_, msg_id), row in found["fct_consume_attempts"].items():
        if row["consumer_group"] is None and msg_id is not None:
            well = row["outcome"] in ENDED_WELL
            of_message[row["topic"], msg_id][None].append(
                ("succeeded" if well else None, 1, row["ended_at"] if well else None)
            )
    missing: dict[Key, list[Record]] = defaultdict(list)
    for (topic, msg_id, _), row in found["orphaned_messages"].items():
        missing[topic, msg_id].append(row)
    rows: Rows = {}
    for key in messages.keys() | of_message.keys():
        message, groups, unconsumed = messages.get(key), of_message[key], missing[key]
        outcomes = Counter(outcome for each in groups.values() for outcome, *_ in each)
        causes = Counter(row["cause"] for row in unconsumed)
        attempted = sum(count for each in groups.values() for _, count, _ in each)
        orphaned = sum(row["is_orphan"] for row in unconsumed)
        if message is None:
            state = "unpublished"
        elif orphaned:
            state = "orphaned"
        elif outcomes["exhausted"] + outcomes["not_returned"]:
            state = "failed"
        elif outcomes["in_flight"] + outcomes["retrying"] or any(
            causes[cause]
            for cause in ("within_grace", "delayed_not_due", "in_flight", "retrying", "in_backlog")
        ):
            state = "open"
        elif (
            any(causes[cause] for cause in ("rolled_back", "recalled", "half_uncommitted")) and not attempted
        ):
            state = "withheld"
        elif any(row["cause"] != "filtered" for row in unconsumed) or not outcomes["succeeded"]:
            state = "untraced"
        else:
            state = "consumed"
        successes = [at for each in groups.values() for _, _, at in each if at is not None]
        rows[key] = {
            "state": state,
            "is_published": message is not None,
            "sends": message["sends"] if message else 0,
            "consumer_groups": sum(group is not None for group in groups),
            "groups_succeeded": sum(
                group is not None and all(outcome == "succeeded" for outcome, *_ in each)
                for group, each in groups.items()
            ),
            "groups_orphaned": orphaned,
            "attempts": attempted,
            "first_success_at": min(successes, default=None),
            "last_success_at": max(successes, default=None),
        }
    return rows


def consumer_group_success(found: dict[str, Rows]) -> Rows:
    """Sums by group, topic and hour."""
    sums: dict[Key, Counter[str]] = defaultdict(Counter)
    for attempt in found["fct_consume_attempts"].values():
        if attempt["consumer_group"] is not None:
            of_hour = sums[attempt["consumer_group"], attempt["topic"], attempt["hour"]]
            outcome = attempt["outcome"]
            of_hour["attempts"] += 1
            of_hour["attempts_with_end"] += attempt["has_end"]
            of_hour["succeeded" if outcome == "success" else outcome] += 1
            of_hour["ends_without_begin"] += not attempt["has_begin"]
            of_hour["attempts_without_pub"] += not attempt["is_published"]
    for (_, group, _), delivery in found["fct_deliveries"].items():
        of_hour = sums[group, delivery["topic"], delivery["hour"]]
        of_hour["deliveries"] += 1
        of_hour[f"deliveries_{delivery['outcome']}"] += 1
        of_hour["first_attempts"] += delivery["is_first_attempt_success"] is not None
        of_hour["first_attempts_succeeded"] += bool(delivery["is_first_attempt_success"])
    columns = (
        *("attempts", "attempts_with_end", "succeeded", "exception", "returned_null", "failed", "timeout"),
        *("not_returned", "in_flight", "ends_without_begin", "attempts_without_pub", "deliveries"),
        *("deliveries_succeeded", "deliveries_in_flight", "deliveries_not_returned", "deliveries_retrying"),
        *("deliveries_exhausted", "first_attempts", "first_attempts_succeeded"),
    )
    return {key: {column: counts[column] for column in columns} for key, counts in sums.items()}


def trace_volume(cluster: Cluster) -> Rows:
    """By trace topic, type, topic, group and hour of the store time; of messages that are not in raw no bytes are known."""
    records: Counter[Key] = Counter()
    messages: dict[Key, set[Key]] = defaultdict(set)
    for record in cluster.records:
        key = (
            *(
                record["trace_topic"],
                record["record_type"],
                name(record["topic"]),
                name(record["group_name"]),
            ),
            hour_of(record["store_time"]),
        )
        records[key] += 1
        messages[key].add(tuple(record[n] for n in ("broker", "queue_id", "epoch", "queue_offset")))
    return {
        key: {"records": count, "trace_messages": len(messages[key]), "stored_bytes": None}
        for key, count in records.items()
    }
