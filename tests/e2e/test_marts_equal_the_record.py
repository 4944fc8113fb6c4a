"""The marts, compared with the record that the clients wrote."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime

import pytest

from sandbox import admin, proof, python_app, scenarios
from sandbox.record import record_types
from sandbox.releases import BY_VERSION, NEWEST, OLDER
from spark_jobs.lookup.identifiers import Identifier
from tests import official_client
from tests.e2e.conftest import MESSAGES
from tests.e2e.world import records_by_type

KINDS = (
    *("normal", "async", "orderly", "batch", "delay", "transaction", "one_way", "unconsumed", "filtered"),
    *("custom_trace", "cloud"),
)
# What the listener did, as the trace must say it.
OUTCOMES = {
    "success": "success",
    "exception": "exception",
    "reconsume_later": "failed",
    "suspend": "failed",
    "null": "returned_null",
    "timeout": "timeout",
}


@pytest.fixture(scope="module")
def record(world):
    return world.record()


def messages(sends) -> list[tuple[dict, str]]:
    """(send, message id) of every message whose send left a Pub."""
    return [(send, msg_id) for send in sends if send["traced"] for msg_id in send["msg_ids"]]


def test_the_scenario_is_complete(record):
    """Each kind of traffic of each release is there, so that no comparison below is one of nothing with nothing."""
    kinds = {(send["release"], send["kind"]) for send in record.sends}
    of_java = {(release, kind) for release in BY_VERSION for kind in KINDS}
    assert kinds - {(python_app.RELEASE, "normal")} == of_java
    outcomes = {(consume["release"], consume["outcome"]) for consume in record.consumes}
    # It takes more than a minute, and the older ones are not given it.
    slow = {(release.version, "timeout") for release in OLDER}
    assert outcomes == {(release, outcome) for release in BY_VERSION for outcome in OUTCOMES} - slow
    assert {t["state"] for t in record.transactions} == {"commit", "rollback", "unknown"}
    assert len({send["producer_group"] for send in record.sends}) >= 2
    assert len({consume["consumer_group"] for consume in record.consumes}) >= 4


def test_the_producer_of_rocketmq_client_python_is_among_the_clients(world, record):
    """What the other tests compare contains its messages: each was sent, and consumed by every group."""
    official_client.package()
    sent = {e["msg_id"] for e in record.sends if e["release"] == python_app.RELEASE}
    assert len(sent) == len(scenarios.python_sends(MESSAGES))
    sends = world.table("marts.fct_sends").to_pylist()
    assert {s["msg_id"] for s in sends if s["producer_group"] == scenarios.PYTHON_PRODUCER} == sent
    groups = {subscription.group for subscription in scenarios.groups_of(scenarios.ORDERS, "CREATED")}
    deliveries = world.table("marts.fct_deliveries").to_pylist()
    consumed = {(d["consumer_group"], d["msg_id"]) for d in deliveries if d["is_published"]}
    assert {(group, msg_id) for group in groups for msg_id in sent} <= consumed


def test_the_index_of_hours_is_partitioned_by_the_day_in_the_ids(world, record):
    """A run reads the partitions of its messages alone. All clients ran within a day, or over midnight."""
    of_java = [
        Identifier.of(msg_id).since_month
        for send, msg_id in messages(record.sends)
        if send["release"] != python_app.RELEASE
    ]
    days = {since_month.days for since_month in of_java if since_month is not None}
    # librocketmq counts from the last day of the month before. Its clients may be the only ones that sent after midnight.
    sent = {datetime.fromtimestamp(send["sent_at_ms"] / 1000).day for send in record.sends}
    partitions = set(world.table("intermediate.int_message_hours", "key_day")["key_day"].to_pylist())
    assert 0 < len(days) <= 2
    assert days <= partitions <= days | sent | {63}


def test_nothing_was_lost(world):
    offsets = admin.trace_offsets(world.sandbox.namesrv, scenarios.TRACE_TOPICS)
    counts = proof.proof(world.settings, "demo", offsets)
    assert counts["trace_messages_broker"] == counts["raw_rows"] > 0
    assert counts["invalid"] == 0


def test_records_by_type(world, record):
    assert records_by_type(world) == record.expected()


def test_trace_volume(world, record):
    """Records by type as the clients wrote them, those of sends by topic and group, and bytes as raw has them."""
    rows = world.table("marts.trace_volume").to_pylist()
    records: dict[str, Counter[str]] = defaultdict(Counter)
    stored_bytes: Counter[tuple[str, str]] = Counter()
    sends: Counter[tuple[str, str]] = Counter()
    for row in rows:
        records[row["trace_topic"]][row["record_type"]] += row["records"]
        stored_bytes[row["trace_topic"], row["record_type"]] += row["stored_bytes"]
        if row["record_type"] == "Pub":
            sends[row["topic"], row["group_name"]] += row["records"]
    assert records == record.expected()
    assert sends == Counter((s["topic"], s["producer_group"]) for s in record.sends if s["traced"])
    by_type, by_topic = Counter(), Counter()
    for message in world.table("raw.trace_messages", "trace_topic", "stored_size", "body").to_pylist():
        size, types = message["stored_size"], Counter(record_types(message["body"].decode()))
        by_topic[message["trace_topic"]] += size
        before = 0
        for name in sorted(types):
            after = before + types[name]
            share = size * after // types.total() - size * before // types.total()
            by_type[message["trace_topic"], name] += share
            before = after
    assert stored_bytes == by_type
    totals = Counter()
    for (topic, _), size in stored_bytes.items():
        totals[topic] += size
    assert totals == by_topic
    assert len(totals) > 1
    days = world.table("marts.trace_volume_daily").to_pylist()
    for column in ("records", "stored_bytes"):
        assert sum(day[column] for day in days) == sum(row[column] for row in rows)


def test_sends(world, record):
    sends = world.table("marts.fct_sends").to_pylist()
    found = Counter((s["topic"], s["producer_group"], s["msg_id"], s["is_send_ok"]) for s in sends)
    assert found == Counter(
        (send["topic"], send["producer_group"], msg_id, send["status"] == "SEND_OK")
        for send, msg_id in messages(record.sends)
    )
    batched = Counter(s["batch_size"] for s in sends if s["batch_size"] > 1)
    assert batched == Counter(
        send["batch_size"] for send, _ in messages(record.sends) if send["batch_size"] > 1
    )


def test_attempts(world, record):
    attempts = world.table("marts.fct_consume_attempts").to_pylist()
    found = Counter((a["consumer_group"], a["msg_id"], a["retry_times"], a["outcome"]) for a in attempts)
    expected = Counter(
        (c["consumer_group"], c["msg_id"], c["reconsume_times"], OUTCOMES[c["outcome"]])
        for c in record.consumes
        if c["traced"]
    )
    assert found == expected


def test_consume_success_per_group(world, record):
    found: dict[str, Counter[str]] = {}
    for row in world.table("marts.consumer_group_success").to_pylist():
        sums = found.setdefault(row["consumer_group"], Counter())
        for column in ("attempts", "succeeded", "exception", "returned_null", "failed", "timeout"):
            sums[column] += row[column]
    column_of = {"success": "succeeded"}
    expected: dict[str, Counter[str]] = {}
    for consume in record.consumes:
        if consume["traced"]:
            sums = expected.setdefault(consume["consumer_group"], Counter())
            outcome = OUTCOMES[consume["outcome"]]
            sums["attempts"] += 1
            sums[column_of.get(outcome, outcome)] += 1
    assert {group: +sums for group, sums in found.items()} == expected


def test_send_latency_counts(world, record):
    found = Counter()
    for row in world.table("marts.send_latency").to_pylist():
        found[row["topic"], row["producer_group"]] += row["sends"]
        assert row["latency_count"] == row["sends"]
        assert 0 <= row["p50_ms"] <= row["p99_ms"] <= row["p999_ms"] <= row["max_ms"]
    assert found == Counter((s["topic"], s["producer_group"]) for s, _ in messages(record.sends))


def test_send_latency_is_what_the_clients_measured(world, record):
    """The slowest send of a topic, measured around the call, bounds what its trace says."""
    measured: dict[str, float] = {}
    for send, _ in messages(record.sends):
        if send["kind"] != "async":
            measured[send["topic"]] = max(measured.get(send["topic"], 0), send["cost_ms"])
    asynchronous = {send["topic"] for send in record.sends if send["kind"] == "async"}
    for row in world.table("marts.send_latency").to_pylist():
        if row["topic"] not in asynchronous:
            assert row["max_ms"] <= measured[row["topic"]] + 1


@pytest.fixture(scope="module")
def calls(record) -> dict[tuple[str, str], list[dict]]:
    """By group and message the traced calls of a listener, first to last; broadcast groups are left out."""
    found: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for consume in record.consumes:
        if consume["traced"] and not consume["broadcast"]:
            found[consume["consumer_group"], consume["msg_id"]].append(consume)
    return {
        key: sorted(each, key=lambda call: (call["reconsume_times"], call["begin_ms"]))
        for key, each in found.items()
    }


@pytest.fixture(scope="module")
def unheard(record) -> set[str]:
    """Messages that a group consumed without a record: of a call whose last message has no region, a 5.5.0 client writes none.

    Such messages are of batches, and those that happen to be in a call with one.
    """
    traced = {(c["consumer_group"], c["msg_id"]) for c in record.consumes if c["traced"]}
    batched = {msg_id for send in record.sends if send["kind"] == "batch" for msg_id in send["msg_ids"]}
    of_all = {(c["consumer_group"], c["msg_id"]) for c in record.consumes}
    return {msg_id for _, msg_id in of_all - traced} - batched


def ended_well(of_delivery: list[dict]) -> bool:
    return any(call["outcome"] in ("success", "timeout") for call in of_delivery)


def test_deliveries(world, calls):
    """Message by message and group: how often it was called, again and in vain, and how it ended."""
    expected = {}
    for key, of_delivery in calls.items():
        counts = [call["reconsume_times"] for call in of_delivery]
        first = of_delivery[0]["outcome"] == "success" if counts[0] == 0 else None
        duplicates = len(counts) - len(set(counts))
        expected[key] = (len(counts), max(counts), duplicates, first, ended_well(of_delivery))
    deliveries = [d for d in world.table("marts.fct_deliveries").to_pylist() if not d["is_broadcast"]]
    found = {
        (d["consumer_group"], d["msg_id"]): (
            *(d["attempts"], d["retries"], d["duplicates"], d["is_first_attempt_success"]),
            d["outcome"] == "succeeded",
        )
        for d in deliveries
    }
    assert len(found) == len(deliveries)
    assert found == expected
    # The ones that never ended well wait for their next try, or their group has given them up.
    assert {d["outcome"] for d in deliveries} - {"succeeded"} <= {"retrying", "exhausted"}
    for mart, columns in (
        ("retries", ("deliveries", "attempts", "retries")),
        ("duplicates", ("deliveries", "attempts", "duplicates")),
    ):
        sums = dict.fromkeys(columns, 0)
        for row in world.table(f"marts.{mart}").to_pylist():
            sums = {column: total + row[column] for column, total in sums.items()}
        of_all = [sum(each) for each in zip(*((1, *e[:3]) for e in expected.values()), strict=True)]
        by_name = dict(zip(("deliveries", "attempts", "retries", "duplicates"), of_all, strict=True))
        assert sums == {column: by_name[column] for column in columns}, mart


def test_every_message_is_in_the_state_that_it_came_to(world, record, calls, unheard):
    last_state = {t["msg_id"]: t["state"] for t in sorted(record.transactions, key=lambda t: t["at_ms"])}
    of_message = defaultdict(list)
    for (_, msg_id), of_delivery in calls.items():
        of_message[msg_id].append(ended_well(of_delivery))
    heard = {c["msg_id"] for c in record.consumes if c["traced"]}
    expected = {}
    for send, msg_id in messages(record.sends):
        if send["kind"] in ("unconsumed", "filtered"):
            state = "orphaned"
        elif send["kind"] == "transaction" and last_state[msg_id] != "commit":
            state = "withheld"
        elif send["kind"] == "batch" and send["release"] == NEWEST.version:
            state = "untraced"
        else:
            assert msg_id in heard, send
            state = "consumed" if all(of_message[msg_id]) else "not yet"
        expected[send["topic"], msg_id] = state
    published = {msg_id for _, msg_id in expected}
    expected |= {(None, msg_id): "unpublished" for msg_id in heard - published}
    found = {
        (row["topic"], row["msg_id"]): "not yet" if row["state"] in ("open", "failed") else row["state"]
        for row in world.table("marts.fct_messages").to_pylist()
    }
    neighbours = {key for key in expected if key[1] in unheard}
    assert len(neighbours) < len(expected) // 20
    assert {found[key] for key in neighbours} <= {"orphaned", *(expected[key] for key in neighbours)}
    assert {k: v for k, v in found.items() if k not in neighbours} == {
        k: v for k, v in expected.items() if k not in neighbours
    }
    assert set(expected.values()) == {
        *("orphaned", "withheld", "untraced", "consumed", "not yet", "unpublished")
    }


def test_broadcast_deliveries_have_one_row_a_client(world, record):
    heard = {(c["consumer_group"], c["msg_id"], c["client_id"]) for c in record.consumes if c["broadcast"]}
    assert heard
    deliveries = [d for d in world.table("marts.fct_deliveries").to_pylist() if d["is_broadcast"]]
    assert {d["consumer_group"] for d in deliveries} == {group for group, _, _ in heard}
    assert len(deliveries) == len(heard)
    assert all(d["duplicates"] == 0 and d["retries"] == 0 for d in deliveries)


def test_orphans_and_their_causes(world, record, unheard):
    rows = world.table("marts.orphaned_messages").to_pylist()
    found = {(row["msg_id"], row["expected_group"]): row["cause"] for row in rows}
    by_kind = {kind: [] for kind in ("unconsumed", "filtered", "transaction", "batch", "one_way")}
    for send in record.sends:
        if send["kind"] in by_kind and (send["traced"] or send["one_way"]):
            by_kind[send["kind"]].append(send)

    for send in by_kind["unconsumed"]:
        assert found[send["msg_id"], None] == "no_traced_group"
    for send in by_kind["filtered"]:
        assert found[send["msg_id"], "invoice-service"] == "passed_untraced"
    for send in by_kind["batch"]:
        causes = {cause for (msg_id, _), cause in found.items() if msg_id in send["msg_ids"]}
        # Clients before 5.3.1 write what became of its messages.
        assert causes == ({"untraced_batch"} if send["release"] == NEWEST.version else set())
    last_state = {t["msg_id"]: t["state"] for t in sorted(record.transactions, key=lambda t: t["at_ms"])}
    expected = {"rollback": "rolled_back", "unknown": "half_uncommitted"}
    for send in by_kind["transaction"]:
        causes = {cause for (msg_id, _), cause in found.items() if msg_id == send["msg_id"]}
        state = last_state[send["msg_id"]]
        assert causes == ({expected[state]} if state in expected else set()), send
    # What was sent in any other way was consumed, by every group that should have.
    missing = {msg_id for send in by_kind["batch"] for msg_id in send["msg_ids"]}
    missing |= {
        send["msg_id"] for kind in ("unconsumed", "filtered", "transaction") for send in by_kind[kind]
    }
    assert {msg_id for msg_id, _ in found} <= missing | unheard

    lost = {row["msg_id"] for row in rows if row["counts_in_orphan_rate"]} - unheard
    assert lost == {send["msg_id"] for send in by_kind["filtered"]}
    assert {row["msg_id"] for row in rows if row["is_orphan"]} - lost - unheard == {
        send["msg_id"] for send in by_kind["unconsumed"]
    }


def test_transactions(world, record):
    """Where the release writes what was decided, or anything at all of a transactional producer."""
    last_state = {t["msg_id"]: t["state"] for t in sorted(record.transactions, key=lambda t: t["at_ms"])}
    expected = {
        send["msg_id"]: last_state[send["msg_id"]]
        for send in record.sends
        if send["kind"] == "transaction" and send["traced"]
    }
    # A client of a later release answers for one of its group that was not traced.
    expected |= {t["msg_id"]: last_state[t["msg_id"]] for t in record.transactions if t["traced"]}
    rows = world.table("marts.fct_transactions").to_pylist()
    assert {row["msg_id"]: row["transaction_state"] for row in rows} == expected

    column_of = {"commit": "committed", "rollback": "rolled_back", "unknown": "state_unknown"}
    counts = Counter(column_of[state] for state in expected.values())
    ends = [t for t in record.transactions if t["traced"]]
    assert sum(row["end_copies"] for row in rows) == len(ends)
    # Of one message, those of the same millisecond and state are copies of one.
    counts |= {name: sum(row[name] for row in rows) for name in ("transaction_ends", "checks_answered")}
    assert len(ends) * 0.9 < counts["transaction_ends"] <= len(ends)
    assert counts["checks_answered"] <= sum(t["check"] for t in ends)
    sums = Counter()
    for row in world.table("marts.transaction_outcomes").to_pylist():
        sums.update({column: row[column] for column in counts})
    assert sums == counts


def test_what_a_transactional_producer_of_4_5_2_sent_was_consumed_and_never_published(world, record):
    """It cannot be traced, and its consumers are."""
    untraced = {
        send["msg_id"]
        for send in record.sends
        if send["release"] == "4.5.2" and send["producer_group"] == "payment-producer"
    }
    consumed = {(c["consumer_group"], c["msg_id"]) for c in record.consumes if c["msg_id"] in untraced}
    assert consumed
    deliveries = [d for d in world.table("marts.fct_deliveries").to_pylist() if d["msg_id"] in untraced]
    assert {(d["consumer_group"], d["msg_id"]) for d in deliveries} == consumed
    assert {(d["is_published"], d["unpublished_cause"]) for d in deliveries} == {(False, "untraced_send")}
    states = {m["state"] for m in world.table("marts.fct_messages").to_pylist() if m["msg_id"] in untraced}
    assert states == {"unpublished"}
