"""docs/definitions.md in plain Python: the facts and two marts of one cluster, made from its records in one go.

Written from the sentences there, not from the models. Each table is a dictionary from its key to the columns compared.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from spark_jobs.settings import Limits

Record = dict[str, Any]
Key = tuple[Any, ...]
Rows = dict[Key, Record]

EPOCH = datetime(1970, 1, 1)
DAY_MS = 24 * 60 * 60 * 1000
ENDED_WELL = ("success", "timeout")
STATES = {"COMMIT_MESSAGE": "commit", "ROLLBACK_MESSAGE": "rollback", "UNKNOW": "unknown"}


@dataclass(frozen=True)
class Subscription:
    """What a group subscribed to from `start` until `end`, None: still. Without `tags` it gets all messages of the topic."""

    topic: str
    group: str
    tags: tuple[str, ...]
    is_sql: bool
    start: datetime
    end: datetime | None


@dataclass(frozen=True)
class Cluster:
    """What the tables of a cluster are a function of; `gaps` are (from, to) in store time, and `subscriptions` are
    those that were known at the watermark."""

    records: list[Record]
    watermark: datetime
    gaps: list[tuple[datetime | None, datetime]] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)


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
        message["due_at"] = _due_at(cluster, message, ends.get(message["msg_id"]))
    expected = _expected(cluster, messages, found["fct_consume_attempts"])
    found["orphaned_messages"] = orphans(
        cluster, messages, found["fct_consume_attempts"], ends, recalled, expected
    )
    found["fct_messages"] = message_states(messages, found)
    found["consumer_group_success"] = consumer_group_success(found)
    found["orphan_rate"] = orphan_rate(cluster, messages, expected, found["orphaned_messages"])
    found["trace_volume"] = trace_volume(cluster)
    return found


# ---- records ------------------------------------------------------------------------------------


def present(text: str | None) -> str | None:
    return None if text in (None, "", "null") else text


def name(text: str | None) -> str | None:
    """A group or topic without %RETRY% and %DLQ% and without a namespace."""
    found = present(text)
    return None if found is None else re.sub(r"^(%RETRY%|%DLQ%)?([^%]+%)?", "", found)


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


def hour_of(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


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
        ids = [each for each in known_by.split(",") if each]
        offsets = (present(record["offset_msg_id"]) or "").split(",")
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
    """The first Pub of each message id, on whatever topic."""
    found: dict[str, Record] = {}
    for (msg_id, offset_msg_id, _), send in sent.items():
        if msg_id is None or send["topic_kind"] != "normal":
            continue
        key = _nulls_first(
            send["sent_at"], send["stored_at"], offset_msg_id, send["topic"], send["hour_source"]
        )
        if msg_id not in found or key < found[msg_id]["key"]:
            found[msg_id] = send | {"key": key}
    return found


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
        not_returned_at = begun_at and begun_at + _consume_timeout(cluster) + _grace(cluster)
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


def broadcast_groups(attempted: Rows) -> set[str]:
    """Groups of which most messages had first attempts on several clients within an hour."""
    clients: dict[Key, set[str]] = defaultdict(set)
    for (_, msg_id), attempt in attempted.items():
        if attempt["consumer_group"] is not None and attempt["retry_times"] == 0:
            clients[attempt["consumer_group"], attempt["hour"], msg_id].add(attempt["client"])
    several, all_of = Counter[str](), Counter[str]()
    for (group, *_), on in clients.items():
        all_of[group] += 1
        several[group] += len(on) > 1
    return {group for group in all_of if several[group] >= 2 and several[group] * 2 > all_of[group]}


def deliveries(cluster: Cluster, sent: Rows, attempted: Rows) -> Rows:
    """One row per message and consumer group; of a broadcast group one per client."""
    broadcast, published = broadcast_groups(attempted), _publications(sent)
    folded: dict[Key, list[Record]] = defaultdict(list)
    for (request_id, msg_id), attempt in attempted.items():
        group = attempt["consumer_group"]
        if group is not None and msg_id is not None:
            client = attempt["client"] if group in broadcast else None
            folded[msg_id, group, client].append(attempt | {"request_id": request_id})
    history_from = min((a["occurred_at"] for a in attempted.values()), default=None)
    found: Rows = {}
    for (msg_id, group, client), of_delivery in folded.items():
        is_broadcast = group in broadcast

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
            )

        first, last = min(of_delivery, key=order), max(of_delivery, key=order)
        ended = [(a, _finished_at(a)) for a in of_delivery]
        successes = [(at, _is_client_time(a)) for a, at in ended if a["outcome"] in ENDED_WELL and at]
        succeeded_at, ended_by_client = min(successes, default=(None, False))
        last_seen_at = max(at or a["occurred_at"] for a, at in ended)
        limit = 0 if is_broadcast else cluster.limits.max_retry_times
        given_up_at = last_seen_at + _max_delay(cluster) + _grace(cluster)
        if any(a["outcome"] in ENDED_WELL for a in of_delivery):
            outcome = "succeeded"
        elif last["outcome"] in ("in_flight", "not_returned"):
            outcome = last["outcome"]
        elif number(last) >= limit or cluster.watermark >= given_up_at:
            outcome = "exhausted"
        else:
            outcome = "retrying"
        decided_at = {
            "succeeded": succeeded_at or last["occurred_at"],
            "not_returned": last["occurred_at"] + _consume_timeout(cluster) + _grace(cluster),
            "exhausted": last_seen_at if number(last) >= limit else given_up_at,
        }
        publication = published.get(msg_id)
        sent_by_client = publication is not None and publication["hour_source"] == "event_time"
        retries = [a["retry_times"] for a in of_delivery if a["retry_times"] is not None]
        unknown = not first["has_begin"] or number(first) > 0 or first["outcome"] == "in_flight"
        found[msg_id, group, client] = {
            "topic": publication["topic"] if publication else None,
            "is_broadcast": is_broadcast,
            "outcome": outcome,
            "is_first_attempt_success": None if unknown else first["outcome"] == "success",
            "attempts": len(of_delivery),
            "retries": 0 if is_broadcast else max(retries, default=0),
            "duplicates": 0 if is_broadcast else len(retries) - len(set(retries)),
            "first_attempt_at": first["occurred_at"],
            "last_attempt_at": last["occurred_at"],
            "succeeded_at": succeeded_at,
            "decided_at": decided_at.get(outcome),
            "hour": first["hour"],
            "is_published": publication is not None,
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
    horizon = timedelta(seconds=cluster.limits.retry_horizon_seconds) + _max_delay(cluster)
    if history_from is not None and first < history_from + horizon:
        return "before_history"
    return "grpc_producer" if msg_id.startswith("01") and len(msg_id) == 34 else "untraced_send"


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


def _decision(ends: list[Record] | None) -> str | None:
    """The last that an EndTransaction said; None where there is none."""
    if not ends:
        return None
    decided = [end["state"] for end in ends if end["state"] in ("commit", "rollback")]
    return decided[-1] if decided else "unknown"


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
        state = _decision(of_message) or "undecided"
        begun_at = half["published_at"] if half else of_message[0]["decided_at"]
        found[(msg_id,)] = {
            "transaction_state": state,
            "is_half_seen": half is not None,
            "is_past_due": state in ("unknown", "undecided")
            and cluster.watermark >= begun_at + _grace(cluster),
            "transaction_ends": len(of_message),
            "checks_answered": sum(bool(end["check"]) for end in of_message),
            "first_decision_at": of_message[0]["decided_at"] if of_message else None,
            "last_decision_at": of_message[-1]["decided_at"] if of_message else None,
            "hour": hour_of(begun_at),
        }
    return found


# ---- orphans ------------------------------------------------------------------------------------


def _due_at(cluster: Cluster, message: Record, ends: list[Record] | None) -> datetime:
    if message["msg_type"] == "delay":
        return message["published_at"] + _max_delay(cluster)
    commits = [end["decided_at"] for end in ends or [] if end["state"] == "commit"]
    return commits[-1] if commits else message["published_at"]


def _expected(cluster: Cluster, messages: Rows, attempted: Rows) -> dict[Key, set[str]]:
    """The groups that are expected to consume each message: those with an attempt on its topic in the look-back."""
    back = timedelta(days=cluster.limits.expected_group_lookback_days)
    seen = [
        (a["topic"], a["consumer_group"], a["occurred_at"])
        for a in attempted.values()
        if a["topic"] is not None and a["consumer_group"] is not None
    ]
    return {
        key: {
            group
            for topic, group, at in seen
            if topic == message["topic"] and at <= message["published_at"] <= at + back
        }
        for key, message in messages.items()
    }


def orphans(
    cluster: Cluster,
    messages: Rows,
    attempted: Rows,
    ends: dict[str, list[Record]],
    recalled: set[str | None],
    expected: dict[Key, set[str]],
) -> Rows:
    """One row per message and expected group without a SubAfter; one per message that no group is expected to consume."""
    of_message: dict[str, list[Record]] = defaultdict(list)
    for (_, msg_id), attempt in attempted.items():
        of_message[msg_id].append(attempt)
    unconsumed = []
    for key, message in messages.items():
        for group in expected[key] or {None}:
            of_group = [
                a for a in of_message[message["msg_id"]] if group is None or a["consumer_group"] == group
            ]
            if not any(attempt["has_end"] for attempt in of_group):
                unconsumed.append((*key, group, message, Counter(a["outcome"] for a in of_group)))
    in_gap = {
        msg_id
        for _, msg_id, _, message, _ in unconsumed
        if any(_in_gap(cluster, message, gap) for gap in cluster.gaps)
    }
    found: Rows = {}
    for topic, msg_id, group, message, outcomes in unconsumed:
        state = _decision(ends.get(msg_id)) or ("unknown" if message["msg_type"] == "half" else None)
        begun = outcomes["in_flight"] + outcomes["not_returned"]
        due = message["due_at"]
        if msg_id in in_gap:
            cause = "trace_gap"
        elif state == "rollback":
            cause = "rolled_back"
        elif msg_id in recalled:
            cause = "recalled"
        elif state == "unknown":
            cause = "half_uncommitted"
        elif not begun and (by_filter := _filtered(cluster, message, group)):
            cause = by_filter
        elif message["msg_type"] == "delay" and cluster.watermark < due:
            cause = "delayed_not_due"
        elif message["batch_size"] > 1 and not begun:
            cause = "untraced_batch"
        elif cluster.watermark < due + _grace(cluster):
            cause = "within_grace"
        elif group is None and not begun:
            cause = "no_traced_group"
        elif outcomes["in_flight"]:
            cause = "in_flight"
        elif outcomes["not_returned"]:
            cause = "not_returned"
        else:
            cause = "filtered_or_lost"
        found[topic, msg_id, group] = {
            "cause": cause,
            "is_orphan": cause in ("no_traced_group", "not_returned", "filtered_or_lost"),
            "counts_in_orphan_rate": cause in ("not_returned", "filtered_or_lost"),
            "evidence": _evidence(cause),
            "published_at": message["published_at"],
            "due_at": due,
        }
    return found


def _evidence(cause: str) -> str:
    if cause in ("rolled_back", "recalled", "filtered", "in_flight"):
        return "proven"
    inferred = ("half_uncommitted", "delayed_not_due", "untraced_batch", "not_returned")
    return "inferred" if cause in inferred else "unknown"


def _filtered(cluster: Cluster, message: Record, group: str | None) -> str | None:
    """The cause, if the group's subscriptions at the publication kept the message from it, or may have."""
    at = message["published_at"]
    valid = [
        each
        for each in cluster.subscriptions
        if (each.topic, each.group) == (message["topic"], group)
        and each.start <= at
        and (each.end is None or at < each.end)
    ]
    if not valid or any(not s.is_sql and (not s.tags or message["tags"] in s.tags) for s in valid):
        return None
    is_of_batch = message["tags"] is None and message["batch_size"] > 1
    return "filter_unknown" if is_of_batch or any(s.is_sql for s in valid) else "filtered"


def _in_gap(cluster: Cluster, message: Record, gap: tuple[datetime | None, datetime]) -> bool:
    start, end = gap
    last = message["due_at"] + _consume_timeout(cluster) + _grace(cluster)
    return message["published_at"] <= end and (start is None or last >= start)


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
            causes[cause] for cause in ("within_grace", "delayed_not_due", "in_flight")
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


def orphan_rate(cluster: Cluster, messages: Rows, expected: dict[Key, set[str]], orphaned: Rows) -> Rows:
    """By topic, expected group and hour of publication; judged are the orphaned, and the consumed past their grace."""
    sums: dict[Key, Counter[str]] = defaultdict(Counter)
    for key, message in messages.items():
        for group in expected[key]:
            of_hour = sums[message["topic"], group, hour_of(message["published_at"])]
            row = orphaned.get((*key, group))
            of_hour["expected"] += 1
            of_hour["consumed"] += row is None
            counts = bool(row and row["counts_in_orphan_rate"])
            of_hour["orphaned"] += counts
            if row:
                of_hour[row["cause"]] += 1
                of_hour[f"orphaned_{row['evidence']}"] += counts
            past_grace = cluster.watermark >= message["due_at"] + _grace(cluster)
            of_hour["judged"] += counts or (row is None and past_grace)
    evidences = ("orphaned_proven", "orphaned_inferred", "orphaned_unknown")
    columns = ("expected", "consumed", "judged", "orphaned", "filtered", "filter_unknown", *evidences)
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


# ---- limits -------------------------------------------------------------------------------------


def _grace(cluster: Cluster) -> timedelta:
    return timedelta(seconds=cluster.limits.grace_seconds)


def _consume_timeout(cluster: Cluster) -> timedelta:
    return timedelta(seconds=cluster.limits.consume_timeout_seconds)


def _max_delay(cluster: Cluster) -> timedelta:
    return timedelta(seconds=cluster.limits.max_delay_seconds)
