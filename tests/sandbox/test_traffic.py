"""The record of the clients, compared with the trace topics as the official client reads them."""

from collections import Counter

from sandbox import admin, python_app, scenarios
from sandbox.java_client import CLOUD_TRACE_TOPIC
from sandbox.record import Record, trace_records
from sandbox.traffic import check_trace
from tests import official_client
from tests.sandbox.conftest import FULL, Traffic

# What a Java listener's outcome looks like in SubAfter: (success, contextCode).
MARKS = {
    "success": ("true", "0"),
    "exception": ("false", "2"),
    "null": ("false", "3"),
    "reconsume_later": ("false", "4"),
    "suspend": ("false", "4"),
    "timeout": ("true", "1"),
}


def test_every_scenario_is_there(traffic: Traffic) -> None:
    summary = traffic.first.summary()
    assert set(summary["sends"]) == {
        *("normal", "async", "orderly", "batch", "delay", "transaction"),
        *("one_way", "unconsumed", "filtered", "custom_trace", "cloud"),
    }
    assert min(summary["sends"].values()) >= 5
    assert set(summary["consumes"]) == set(MARKS) - (set() if FULL else {"timeout"})
    assert {"commit", "rollback", "unknown", "commit (check)", "rollback (check)", "unknown (check)"} == set(
        summary["transactions"]
    )
    assert len({e["producer_group"] for e in traffic.first.sends}) >= 2
    assert len({e["consumer_group"] for e in traffic.first.consumes}) >= 4
    assert Counter(e["event"] for e in traffic.first.sends if e["kind"] == "normal")["send"] >= 200


def test_each_topic_holds_exactly_the_expected_records(traffic: Traffic) -> None:
    assert check_trace(traffic.both, traffic.messages) == []
    assert set(traffic.both.expected()) == set(scenarios.TRACE_TOPICS)


def test_a_missing_record_is_detected(traffic: Traffic) -> None:
    lost = next(m for m in traffic.messages if {f[0] for f in trace_records(m["body"])} == {"Pub"})
    kept = [m for m in traffic.messages if m is not lost]
    msg_ids = sorted({fields[5] for fields in trace_records(lost["body"])})
    assert check_trace(traffic.both, kept) == [
        f"{lost['topic']} has 0 Pub records of message {msg_id}, expected 1" for msg_id in msg_ids
    ]


def test_a_record_that_was_sent_again_counts_once_or_as_another_decision(traffic: Traffic) -> None:
    several = next(m for m in traffic.messages if len(trace_records(m["body"])) > 1)
    last = {**several, "body": "\x01".join(trace_records(several["body"])[-1]) + "\x02"}
    assert check_trace(traffic.both, [*traffic.messages, traffic.messages[0], last]) == []
    decided = next(m for m in traffic.messages if m["body"].startswith("EndTransaction"))
    fields = trace_records(decided["body"])[0]
    again = next(e for e in traffic.both.transactions if e["msg_id"] == fields[5])
    one = {**decided, "body": "\x01".join(fields) + "\x02"}
    more = Record(traffic.both.sends, traffic.both.consumes, [*traffic.both.transactions, again])
    assert check_trace(more, [*traffic.messages, one]) == []
    assert len(check_trace(more, traffic.messages)) == 1


def test_a_send_is_one_pub_and_one_way_leaves_none(traffic: Traffic) -> None:
    sends = [e for e in traffic.both.sends if not e["one_way"]]
    pubs = traffic.records("Pub")
    assert {len(f) for f in pubs} == {14}
    assert Counter((f[3], f[4], f[5]) for f in pubs) == Counter(
        (e["producer_group"], e["topic"], e["msg_id"]) for e in sends
    )
    # The result of a transactional send has no offset message id; its Pub has the half message's.
    stored = {e["msg_id"]: e["offset_msg_id"] for e in sends if e["offset_msg_id"]}
    # That of rocketmq-client-python never has one.
    others = [f for f in pubs if f[3] != scenarios.PYTHON_PRODUCER]
    assert {f[5]: f[12] for f in others if f[11] != "1"} == stored
    batches = [f for f in traffic.records("Pub") if "," in f[5]]
    assert {(len(f[5].split(",")), f[6], f[7]) for f in batches} == {(5, "null", "null")}
    one_way = {e["msg_id"] for e in traffic.both.sends if e["one_way"]}
    assert one_way & {f[5] for f in traffic.records("Pub")} == set()
    assert one_way <= {f[5] for f in traffic.records("SubBefore")}


def test_the_producer_of_rocketmq_client_python_is_traced(traffic: Traffic) -> None:
    """Its messages are consumed by the Java clients, as those of any other producer."""
    official_client.package()
    sends = [e for e in traffic.both.sends if e["producer_group"] == scenarios.PYTHON_PRODUCER]
    assert len(sends) == len(scenarios.python_sends(300)) == 30
    assert {e["release"] for e in sends} == {python_app.RELEASE}
    pubs = {f[5]: f for f in traffic.records("Pub") if f[3] == scenarios.PYTHON_PRODUCER}
    for send in sends:
        fields = pubs[send["msg_id"]]
        assert (fields[4], fields[6], fields[7]) == (send["topic"], send["tags"], send["keys"])
        assert (int(fields[9]), int(fields[10]), fields[13]) == (
            send["body_length"],
            int(send["cost_ms"]),
            "true",
        )
    groups = {subscription.group for subscription in scenarios.groups_of(scenarios.ORDERS, "CREATED")}
    consumed = {(e["consumer_group"], e["msg_id"]) for e in traffic.both.consumes}
    assert {(group, send["msg_id"]) for group in groups for send in sends} <= consumed


def test_message_ids_are_unique(traffic: Traffic) -> None:
    ids = [msg_id for e in traffic.both.sends for msg_id in e["msg_ids"]]
    assert len(ids) == len(set(ids))


def test_a_pub_says_what_kind_of_message_it_was(traffic: Traffic) -> None:
    kinds = {e["msg_id"]: e["kind"] for e in traffic.both.sends}
    seen = {(kinds[f[5]], f[11]) for f in traffic.records("Pub")}
    # 0 normal, 1 half, 3 delay
    assert {kind for kind, number in seen if number == "1"} == {"transaction"}
    assert {kind for kind, number in seen if number == "3"} == {"delay"}
    assert {number for _, number in seen} == {"0", "1", "3"}


def test_attempts_agree_one_by_one(traffic: Traffic) -> None:
    acts = [e for e in traffic.both.consumes if e["traced"]]
    begun = Counter((f[3], f[5], int(f[6])) for f in traffic.records("SubBefore"))
    assert begun == Counter((e["consumer_group"], e["msg_id"], e["reconsume_times"]) for e in acts)
    # With access channel CLOUD there is no time and no group, but an empty eighth field.
    ended = Counter((f[8] if len(f) == 9 else None, f[2], f[4], f[6]) for f in traffic.records("SubAfter"))
    assert ended == Counter(
        (
            None if e["trace_topic"] == CLOUD_TRACE_TOPIC else e["consumer_group"],
            e["msg_id"],
            *MARKS[e["outcome"]],
        )
        for e in acts
    )
    assert {(len(f), f[7] == "") for f in traffic.records("SubAfter")} == {(9, False), (8, True)}


def test_a_listener_call_shares_a_request_id(traffic: Traffic) -> None:
    calls = Counter(e["call_id"] for e in traffic.both.consumes if e["traced"])
    request_ids = Counter(f[4] for f in traffic.records("SubBefore"))
    assert max(request_ids.values()) > 1
    assert sorted(request_ids.values()) == sorted(calls.values())


def test_only_batch_sent_messages_have_no_region_and_no_consumer_records(traffic: Traffic) -> None:
    kinds = {msg_id: e["kind"] for e in traffic.both.sends for msg_id in e["msg_ids"]}
    assert {kinds[e["msg_id"]] for e in traffic.both.consumes if e["region"] is None} == {"batch"}
    assert {kinds[e["msg_id"]] for e in traffic.both.consumes if e["region"]} >= {"normal", "one_way"}


def test_transaction_decisions_agree(traffic: Traffic) -> None:
    states = {"commit": "COMMIT_MESSAGE", "rollback": "ROLLBACK_MESSAGE", "unknown": "UNKNOW"}
    acts = Counter(
        (e["producer_group"], e["msg_id"], states[e["state"]], str(e["check"]).lower())
        for e in traffic.both.transactions
    )
    assert Counter((f[3], f[5], f[11], f[12]) for f in traffic.records("EndTransaction")) == acts


def test_fates(traffic: Traffic) -> None:
    run = traffic.first
    attempts: dict[tuple[str, str], list[int]] = {}
    for e in run.consumes:
        attempts.setdefault((e["msg_id"], e["consumer_group"]), []).append(e["reconsume_times"])
    consumed = {msg_id for msg_id, _ in attempts}
    never = {e["msg_id"] for e in run.sends if e["kind"] in ("unconsumed", "filtered")}
    assert consumed & never == set()
    assert Counter(len(a) for (_, g), a in attempts.items() if g == "price-cache") == {2: 30}
    assert sum(sorted(a) == [0, 1, 2] for (_, g), a in attempts.items() if g == "invoice-service") == 5
    assert max(len(a) for (_, g), a in attempts.items() if g == "mail-service") == 4
    first_payment = min(e["begin_ms"] for e in run.consumes if e["consumer_group"] == "invoice-service")
    assert all(e["sent_at_ms"] > first_payment for e in run.sends if e["kind"] == "filtered")


def test_delayed_messages_come_late(traffic: Traffic) -> None:
    sent = {e["msg_id"]: e["sent_at_ms"] for e in traffic.first.sends if e["delay_level"]}
    waits = [e["begin_ms"] - sent[e["msg_id"]] for e in traffic.first.consumes if e["msg_id"] in sent]
    assert len(waits) == 3 * len(sent)
    assert min(waits) >= 1900


def test_a_second_run_adds_to_the_record(traffic: Traffic) -> None:
    assert len(traffic.both.sends) == len(traffic.first.sends) + len(traffic.second.sends)
    assert traffic.second.offsets_before == traffic.first.offsets_after
    sent_first = {msg_id for e in traffic.first.sends for msg_id in e["msg_ids"]}
    # Only transactions reach into the next run: the undecided ones are asked about, and a check that
    # overtakes a decision lets the broker deliver a message twice.
    transactions = {e["msg_id"] for e in traffic.first.sends if e["kind"] == "transaction"}
    again = {e["msg_id"] for e in (*traffic.second.consumes, *traffic.second.transactions)}
    assert sent_first & again <= transactions


def test_the_admin_tool_agrees_with_what_was_read(traffic: Traffic) -> None:
    offsets = admin.trace_offsets(traffic.sandbox.namesrv, scenarios.TRACE_TOPICS)
    assert offsets == traffic.second.offsets_after
    read = Counter((m["topic"], m["broker"], m["queue_id"]) for m in traffic.messages)
    assert read == {
        (topic, broker, queue): high - low
        for topic, brokers in offsets.items()
        for broker, queues in brokers.items()
        for queue, (low, high) in queues.items()
    }


def test_the_clients_files_stay_below_the_record(traffic: Traffic) -> None:
    assert list((traffic.record_folder / "client" / "logs").rglob("*.log"))
    assert (traffic.record_folder / "client" / "offsets").is_dir()
