"""Read the life of a message from the serving file."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import quote

from spark_jobs.lookup import wording
from spark_jobs.lookup.doubts import doubts
from spark_jobs.lookup.lanes import lanes_of
from spark_jobs.lookup.life import Absent, Life, Step, Summary
from spark_jobs.lookup.reader import Reader, Row
from spark_jobs.lookup.records import anchor
from spark_jobs.lookup.usual import Percentiles

SIBLINGS = 1000
STEPS = 1000
_OF_MESSAGE = "cluster = $cluster and msg_id = $msg_id"


def life(reader: Reader, cluster: str, msg_id: str) -> Life | None:
    """All that is known of a message; None if no record of it is.

    Args:
        reader: an open serving file.
        cluster: RocketMQ cluster.
        msg_id: the message id of the client, else the broker's, as in fct_messages.
    """
    hours = reader.hours(cluster, msg_id)

    def rows(table: str) -> list[Row]:
        return reader.rows(table, hours, _OF_MESSAGE, cluster=cluster, msg_id=msg_id)

    messages = rows("marts.fct_messages")
    sends = sorted(rows("marts.fct_sends"), key=lambda row: row["sent_at"])
    attempts = sorted(rows("marts.fct_consume_attempts"), key=lambda row: row["occurred_at"])
    # Events are read only for a message that can have decisions: that takes longer than all of the facts.
    is_decided = (
        not (sends or attempts) or any(m["is_delayed"] for m in messages) or rows("marts.fct_transactions")
    )
    decisions = _decisions(reader, cluster, msg_id, hours) if is_decided else []
    if not (messages or sends or attempts or decisions):
        return None
    deliveries, orphaned = rows("marts.fct_deliveries"), rows("marts.orphaned_messages")
    percentiles = Percentiles(reader, cluster, hours)
    steps = sorted(
        [*_sends(sends, percentiles), *decisions, *_due(messages)], key=lambda step: step.at or datetime.max
    )
    siblings = _siblings(reader, cluster, msg_id, sends)
    first = next((send for send in sends if send["topic_kind"] == "normal"), sends[0] if sends else {})
    keys = first.get("keys") or next((a["keys"] for a in attempts if a["keys"]), None) or ""
    return Life(
        cluster=cluster,
        msg_id=msg_id,
        messages=tuple(
            map(_summary, sorted(messages, key=lambda row: (row["published_at"] is None, row["topic"] or "")))
        ),
        keys=_split(keys),
        tags=first.get("tags"),
        offset_msg_ids=tuple(dict.fromkeys(s["offset_msg_id"] for s in sends if s["offset_msg_id"])),
        steps=tuple(steps[:STEPS]),
        steps_total=len(steps),
        lanes=tuple(lanes_of(deliveries, attempts, percentiles)),
        absent=tuple(_absent(row) for row in sorted(orphaned, key=lambda row: row["expected_group"] or "")),
        siblings=siblings[:SIBLINGS],
        siblings_total=len(siblings),
        doubts=tuple(dict.fromkeys(doubts(reader, cluster, hours, messages, sends, attempts, deliveries))),
        trace_url=_trace_url(reader, cluster, msg_id, first, keys),
        publication_id=reader.publication_id,
        watermark=reader.watermarks.get(cluster),
        files_read=reader.files_read,
        files_total=reader.files_total,
    )


def _split(keys: str) -> tuple[str, ...]:
    """The keys of a record, which clients separate by spaces; other white space is a part of a key."""
    return tuple(key for key in keys.split(" ") if key)


def _summary(row: Row) -> Summary:
    return Summary(
        topic=row["topic"],
        state=row["state"],
        meaning=wording.STATES[row["state"]],
        published_at=row["published_at"],
        producer_group=row["producer_group"],
        msg_type=row["msg_type"],
        is_delayed=row["is_delayed"],
        transaction_state=row["transaction_state"],
    )


def _sends(sends: list[Row], percentiles: Percentiles) -> list[Step]:
    found = []
    for send in sends:
        record = anchor("Pub", send["offset_msg_id"], send["event_time"])
        half = "half message " if send["msg_type"] == "half" else ""
        batch = (
            f" as number {send['batch_index'] + 1} of a batch of {send['batch_size']}"
            if send["batch_size"] > 1
            else ""
        )
        kind = {"retry": " (retry topic)", "dead_letter": " (dead-letter topic)"}.get(send["topic_kind"], "")
        duration = percentiles.duration(
            "send_latency", send["cost_ms"], send["hour"], send["topic"], send["producer_group"]
        )
        text = f"{half}sent to {send['topic']}{kind} by {send['producer_group'] or 'an unknown group'}{batch}"
        found.append(Step(send["sent_at"], "sent", text, send["client"], duration, record))
        status = {True: "SEND_OK", False: "another status than SEND_OK", None: "status unknown"}[
            send["is_send_ok"]
        ]
        # Traces have no store time of the message: the broker stored it before it answered.
        answered = (
            None
            if send["cost_ms"] is None
            else send["sent_at"] + timedelta(milliseconds=min(send["cost_ms"], 1e11))
        )
        text = f"stored by broker {send['store_host'] or 'of unknown address'} before this time: it answered with {status}"
        found.append(Step(answered, "stored", text))
    return found


def _decisions(reader: Reader, cluster: str, msg_id: str, hours: list[datetime]) -> list[Step]:
    """The decisions on a transaction and the recalls; of a record that was stored twice, one."""
    if not hours:
        return []
    events, parameters = reader.events(hours)
    rows = reader.query(
        f"select * from {events} where {_OF_MESSAGE} and record_type in ('EndTransaction', 'Recall')",
        cluster=cluster,
        msg_id=msg_id,
        **parameters,
    )
    found = []
    for row in rows:
        suspect = row["event_time"] is None or row["event_time_suspect"]
        at = row["store_time"] if suspect else row["event_time"]
        client = (
            row["client_host"]
            if "@" in (row["client_host"] or "")
            else row["born_host"] or row["client_host"]
        )
        record = anchor(row["record_type"], row["transaction_state"], row["event_time"])
        if row["record_type"] == "Recall":
            text = (
                "the producer recalled it"
                if row["success"]
                else "the producer tried to recall it, and failed"
            )
            found.append(Step(at, "recalled", text, client, record=record))
            continue
        state = _STATES.get(row["transaction_state"], str(row["transaction_state"]))
        check = ", in answer to a check of the broker" if row["from_transaction_check"] else ""
        text = wording.DECISIONS.get(state, f"the producer decided {state}") + check
        found.append(Step(at, state, text, client, record=record))
    return list(dict.fromkeys(found))


# As stg_transaction_ends names them.
_STATES = {"COMMIT_MESSAGE": "commit", "ROLLBACK_MESSAGE": "rollback", "UNKNOW": "unknown"}


def _due(messages: list[Row]) -> list[Step]:
    return [
        Step(row["due_at"], "due", "delayed: the broker delivers it at this time at the latest")
        for row in messages
        if row["is_delayed"] and row["due_at"]
    ]


def _absent(row: Row) -> Absent:
    group, cause = row["expected_group"], row["cause"]
    meaning = wording.CAUSES_WITHOUT_GROUP.get(cause) if group is None else None
    return Absent(group, cause, meaning or wording.CAUSES[cause], row["is_orphan"])


def _siblings(reader: Reader, cluster: str, msg_id: str, sends: list[Row]) -> tuple[str, ...]:
    batches = sorted({send["batch_id"] for send in sends if send["batch_id"]})
    if not batches:
        return ()
    rows = reader.rows(
        "marts.fct_sends",
        sorted({send["hour"] for send in sends}),
        "cluster = $cluster and batch_id in (select unnest($batches)) and msg_id != $msg_id",
        "msg_id, batch_id, batch_index",
        cluster=cluster,
        batches=batches,
        msg_id=msg_id,
    )
    rows.sort(key=lambda row: (row["batch_id"], row["batch_index"]))
    return tuple(dict.fromkeys(row["msg_id"] for row in rows))


def _trace_url(reader: Reader, cluster: str, msg_id: str, send: Row, keys: str) -> str | None:
    template = reader.settings.lookup.trace_url
    if not template:
        return None
    published_at = send.get("sent_at")
    values = {
        "cluster": cluster,
        "topic": send.get("topic") or "",
        "msg_id": msg_id,
        "key": next(iter(_split(keys)), ""),
        "published_ms": str(round((published_at - datetime(1970, 1, 1)).total_seconds() * 1000))
        if published_at
        else "",
    }
    return template.format(**{name: quote(value, safe="") for name, value in values.items()})
