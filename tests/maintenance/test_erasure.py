"""What is erased is in no file of the warehouse, comes back with nothing, and takes nothing else along."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyspark.sql import functions as F

from spark_jobs.erasure import rules
from spark_jobs.erasure.bodies import ERASED, without_erased
from spark_jobs.erasure.rules import Kind, Rule, digest, rules_of
from spark_jobs.erasure.tables import erase_from_ops, forget
from spark_jobs.ingest import raw
from spark_jobs.jobs import erase as job
from spark_jobs.jobs.erase import erase
from spark_jobs.jobs.merge import merge_all
from spark_jobs.jobs.replay import replay_messages
from spark_jobs.lake import publish, tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.offsets import read_offsets
from spark_jobs.trace import merge as trace_merge
from spark_jobs.trace.layouts import LAYOUTS
from spark_jobs.trace.pieces import min_records
from tests import lakes
from tests.checks.world import add
from tests.maintenance.files import holding
from tests.planning import run_jobs_on
from tests.spark.stored import messages, planned, stored, write

S, R = "\x01", "\x02"
TEXT = "Grün-4711-VICTIM"
CHECKED_AT = datetime(2026, 11, 24, tzinfo=UTC)
OTHERS = {
    "time": "1795000000000", "region": "DefaultRegion", "group": "some-group", "topic": TEXT, "msgId": "AC11",
    "tags": "TagA", "keys": "k1 k2", "storeHost": "10.0.0.1:10911", "bodyLength": "128", "cost": "3", "msgType": "0",
    "offsetMsgId": "OID", "success": "true", "clientHost": "10.0.0.9", "requestId": "RQ", "retryTimes": "0",
    "contextCode": "0", "transactionId": "TX", "transactionState": "COMMIT_MESSAGE", "fromTransactionCheck": "false",
    "exactlyOnceStatus": "1",
}  # fmt: skip
NAMED = {
    Kind.KEY: {"keys": f"k1 {TEXT} k2"},
    Kind.GROUP: {"group": f"ns%{TEXT}"},
    Kind.MSG_ID: {"msgId": f"AC11,{TEXT}"},
}


def record(**fields: str) -> str:
    """A SubAfter with its group."""
    layout = next(layout for layout in LAYOUTS if layout.name == "sub_after_9")
    return S.join(layout.wire(OTHERS | {"topic": "orders"} | fields)) + R


def rule(kind: Kind, text: str = TEXT) -> Rule:
    return Rule("c", kind, "salt", digest("salt", text))


@pytest.fixture(scope="module")
def cleaned(spark):
    """Bodies as they are after a rule, with the count of what is gone; one Spark job a rule."""

    def clean(kind: Kind, *bodies: str | bytes) -> list[tuple[bytes, int]]:
        rows = messages(spark, 0, len(bodies)).drop("body")
        contents = spark.createDataFrame(
            [(n, bytearray(b if isinstance(b, bytes) else b.encode())) for n, b in enumerate(bodies)],
            "queue_offset bigint, body binary",
        )
        before = rows.join(contents, "queue_offset").withColumn("min_records", min_records())
        done = without_erased(before, [rule(kind)]).orderBy("queue_offset")
        found = done.withColumn("in_body", min_records()).collect()
        assert [row.min_records for row in found] == [row.in_body for row in found]
        return [(bytes(row.body), int((row.properties or {}).get(ERASED, 0))) for row in found]

    return clean


@pytest.mark.parametrize("kind", Kind)
def test_a_record_of_each_layout_that_has_the_kind(cleaned, kind):
    """And none that has the text elsewhere: as its topic."""
    field = next(iter(NAMED[kind]))
    named = {la.name: S.join(la.wire(OTHERS | NAMED[kind])) + R for la in LAYOUTS}
    others = {la.name: S.join(la.wire(OTHERS)) + R for la in LAYOUTS}
    found = cleaned(kind, *named.values(), *others.values())
    of_named = dict(zip(named, found[: len(LAYOUTS)], strict=True))
    of_others = dict(zip(others, found[len(LAYOUTS) :], strict=True))
    assert of_named == {
        la.name: (b"\x02", 1) if field in la.fields else (named[la.name].encode(), 0) for la in LAYOUTS
    }
    assert of_others == {name: (body.encode(), 0) for name, body in others.items()}


def test_neighbours_keep_their_bytes_and_places(cleaned):
    other, torn = record(keys="k3").encode(), b"Pub\x01\xff\xfe\x02"
    named = record(keys=TEXT).encode()
    ((body, count), *_) = cleaned(Kind.KEY, other + named + torn + named + other)
    assert (body, count) == (other + b"\x02" + torn + b"\x02" + other, 2)


def test_a_longer_key_stays(cleaned):
    body = record(keys=f"{TEXT}-2 x{TEXT}")
    assert cleaned(Kind.KEY, body) == [(body.encode(), 0)]


def test_torn_and_glued_records_with_the_text_in_any_field(cleaned):
    torn, glued = f"SubAfter{S}{TEXT}{R}", record(keys=TEXT).removesuffix(R) + S + record(keys="k")
    assert cleaned(Kind.KEY, torn, glued) == [(b"\x02", 1), (b"\x02", 1)]


def test_keys_properties_and_unreadable_bodies(spark):
    rows = messages(spark, 0, 3, record(keys="k")).withColumns(
        {
            "keys": F.expr(f"if(queue_offset = 2, 'a', 'a {TEXT} b')"),
            "properties": F.expr(
                f"if(queue_offset = 2, null, map('KEYS', 'a {TEXT} b', 'X', '{TEXT}', 'Y', 'y'))"
            ),
            "body_error": F.expr("if(queue_offset = 1, 'crc: wrong', null)"),
        }
    )
    first, second, third = without_erased(rows, [rule(Kind.KEY)]).orderBy("queue_offset").collect()
    for row in (first, second):
        assert row["keys"] == "a b"
        assert row.properties == {"KEYS": "a b", "X": "", "Y": "y", ERASED: "0"}
    assert [bytes(row.body) for row in (first, second, third)] == [
        record(keys="k").encode(),
        b"",
        record(keys="k").encode(),
    ]
    assert (third["keys"], third.properties) == ("a", None)


def test_no_rules_cost_nothing(spark):
    rows = messages(spark, 0, 1)
    assert without_erased(rows, []) is rows


@pytest.mark.parametrize(("kind", "text"), [(Kind.KEY, "two words"), (Kind.KEY, ""), (Kind.GROUP, "ns%")])
def test_what_is_no_name_is_refused(kind, text):
    with pytest.raises(ValueError, match="is no"):
        rules.named(kind, text)


@pytest.fixture(scope="module")
def filled(spark, settings):
    """Six messages of two records; the second of the first three is named, and their keys say so. All are merged."""
    lakes.empty(spark, settings)
    tables.ensure(spark)
    body = record(keys="k1", requestId="a{0}") + record(keys=TEXT, requestId="b{0}")
    other = record(keys="k1", requestId="a{0}") + record(keys="k2", group="last-group", requestId="b{0}")
    rows = messages(spark, 0, 3, body).withColumns(
        {"keys": F.lit(f"AC11 {TEXT}"), "properties": F.create_map(F.lit("KEYS"), F.lit(f"AC11 {TEXT}"))}
    )
    write(spark, settings, rows.union(messages(spark, 3, 6, other)), planned(0, 6), "run")
    assert merge_all(spark, settings, "run").records == 12
    return spark


def erased(spark, settings, kind: Kind = Kind.KEY, text: str = TEXT, cluster: str = "c"):
    return erase(spark, settings, cluster, kind, text, "erasure")


def request_ids(spark) -> set[tuple[int, int, str]]:
    rows = spark.table(tables.EVENTS.full_name).collect()
    return {(row.queue_offset, row.record_index, row.request_id) for row in rows}


def everywhere(settings) -> list[str]:
    return holding(settings.home / "warehouse", TEXT)


def forgotten(spark, settings) -> list[str]:
    names = [table.name for table in tables.ALL]
    return forget(spark, settings, names, datetime.now(UTC) + timedelta(hours=1), "erasure")


def test_gone_from_every_file_and_nothing_else_is(filled, settings, monkeypatch):
    """Though it was killed once, a branch still held it, and raw had dropped one of the messages."""
    filled.sql(f"delete from {tables.RAW.full_name} where queue_offset = 0")
    filled.sql(f"alter table {tables.RAW.full_name} create branch extract_1")
    assert any("raw" in file for file in everywhere(settings))
    assert any(file.endswith(".avro") for file in everywhere(settings)), "bounds in manifests"
    before = {table.name: read_offsets(filled, settings, table) for table in (tables.RAW, tables.EVENTS)}

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("spark_jobs.jobs.erase.replay_messages", killed)
        with pytest.raises(KeyboardInterrupt):
            erased(filled, settings)
    assert len(request_ids(filled)) == 12
    erased(filled, settings)
    assert forgotten(filled, settings) == ["raw.trace_messages: extract_1"]
    assert any("raw" in file for file in everywhere(settings))
    filled.sql(f"alter table {tables.RAW.full_name} drop branch extract_1")
    assert forgotten(filled, settings) == []
    assert everywhere(settings) == []

    expected = {(offset, 0, f"a{offset}") for offset in range(6)} | {(o, 1, f"b{o}") for o in range(3, 6)}
    assert request_ids(filled) == expected
    counted = {
        row.queue_offset: row.properties and row.properties[ERASED]
        for row in filled.table(tables.RAW.full_name).collect()
    }
    assert counted == {1: "1", 2: "1", 3: None, 4: None, 5: None}, "the messages stay"
    for table in (tables.RAW, tables.EVENTS):
        assert read_offsets(filled, settings, table).positions == before[table.name].positions
    (row,) = filled.table(tables.ERASURES.full_name).collect()
    assert (row.messages, row.records, row.kind) == (2, 2, "key")


def test_later_messages_and_replays_bring_nothing_back(filled, settings):
    erased(filled, settings)
    rows = without_erased(
        messages(filled, 6, 8, record(keys=TEXT) + record(keys="k")), rules_of(settings, "c")
    )
    write(filled, settings, rows, planned(6, 8), "later")
    assert merge_all(filled, settings, "later").records == 2
    days = replay_messages(filled, settings, filled.table(tables.RAW.full_name), "replay")
    assert sum(day.changed for day in days) == 0
    assert filled.table(tables.EVENTS.full_name).where(f"contains(keys, '{TEXT}')").isEmpty()


def test_a_group_of_one_cluster_and_its_replaced_records(filled, settings):
    records = filled.table(tables.EVENTS.full_name).select(*tables.REPLACED_RECORDS.column_names)
    records.writeTo(tables.REPLACED_RECORDS.full_name).append()
    before = request_ids(filled)
    erased(filled, settings, Kind.GROUP, "last-group", cluster="another")
    assert request_ids(filled) == before
    erased(filled, settings, Kind.GROUP, "ns%last-group")
    assert request_ids(filled) == before - {(offset, 1, f"b{offset}") for offset in range(3, 6)}
    left = filled.table(tables.REPLACED_RECORDS.full_name)
    assert left.count() > 0
    assert left.where("group_name = 'last-group'").isEmpty()


# What ops.alerts and ops.check_results hold of two clusters: the entity's last part is a group, a topic, a queue or a task.
ENTITIES = {
    *("a/orders", "a/mail/orders", "a/orders/mail", "a/orders-2", "a", "b/orders", "b/mail/orders"),
    *("orders/mail", "trace_ingest/orders", "orders", None),
}
OF_THE_GROUP = {"a/orders", "a/mail/orders"}


@pytest.mark.parametrize(
    ("kind", "text", "gone"),
    [
        (Kind.GROUP, "orders", OF_THE_GROUP),
        *((Kind.GROUP, word, set()) for word in ("prod", "pipeline", "deliveries", "a")),
        *((Kind.KEY, word, set()) for word in ("orders", "pipeline", "duplicates")),
        (Kind.MSG_ID, "orders", set()),
    ],
)
def test_tables_of_checks_lose_a_group_of_the_cluster_and_nothing_else(filled, settings, kind, text, gone):
    common = {"class": "messaging", "severity": "critical", "owner": "prod", "table": "marts.duplicates"}
    results = [common | {"entity": e, "detail": "20 of 100 deliveries have duplicates"} for e in ENTITIES]
    alerts = [
        common | {"entity": e, "identity": f"prod:marts.duplicates:c:{e}", "route": "pipeline"}
        for e in ENTITIES
    ]
    for table, rows in ((tables.CHECK_RESULTS, results), (tables.ALERTS, alerts)):
        filled.sql(f"delete from {table.full_name}")
        add(settings, table, rows)
    erase_from_ops(filled, Rule("a", kind, "salt", digest("salt", text)))
    for table in (tables.CHECK_RESULTS, tables.ALERTS):
        assert {row.entity for row in filled.table(table.full_name).collect()} == ENTITIES - gone, table.name


@pytest.mark.parametrize(
    ("kind", "text", "gone"),
    [
        (Kind.GROUP, "orders", {"a group"}),
        (Kind.MSG_ID, "ID7", {"a id"}),
        (Kind.MSG_ID, "orders", set()),
        (Kind.KEY, "orders", set()),
    ],
)
def test_replaced_records_lose_what_has_it_in_its_column(filled, settings, kind, text, gone):
    """Each row's `request_id` says whose and what it is; the topic `orders` is none of it."""
    rows = [
        {"cluster": cluster, "topic": "orders", "request_id": f"{cluster} {what}", **columns}
        for cluster in ("a", "b")
        for what, columns in {
            "group": {"group_name": "%RETRY%orders"},
            "id": {"msg_id": "ID6,ID7"},
            "other": {"group_name": "mail", "msg_id": "ID70"},
        }.items()
    ]
    filled.sql(f"delete from {tables.REPLACED_RECORDS.full_name}")
    add(settings, tables.REPLACED_RECORDS, rows)
    erase_from_ops(filled, Rule("a", kind, "salt", digest("salt", text)))
    left = {row.request_id for row in filled.table(tables.REPLACED_RECORDS.full_name).collect()}
    assert left == {row["request_id"] for row in rows} - gone


def next_offset(spark, settings) -> int:
    (position,) = read_offsets(spark, settings, tables.RAW).positions.values()
    return position.next


def once_after(step, then):
    """The step, and `then` behind its first call."""
    called = []

    def wrapped(*given):
        found = step(*given)
        if not called:
            called.append(then())
        return found

    return wrapped


def test_a_merge_that_read_the_messages_before_is_refused_and_plans_again(filled, settings, monkeypatch):
    """Events hold nothing of it yet when it is erased there."""
    first, text = next_offset(filled, settings), "under-way-in-the-merge"
    body = record(keys=text) + record(keys="k")
    write(filled, settings, messages(filled, first, first + 2, body), planned(first, first + 2), "run")
    meanwhile = once_after(trace_merge._audit, lambda: erased(filled, settings, text=text))
    monkeypatch.setattr(trace_merge, "_audit", meanwhile)
    assert merge_all(filled, settings, "merge").records == 2
    assert filled.table(tables.EVENTS.full_name).where(f"keys = '{text}'").isEmpty()


def test_an_extraction_that_read_the_rules_before_is_refused(filled, settings, monkeypatch):
    """Raw holds nothing of it yet when it is erased there."""
    committed, text = read_offsets(filled, settings, tables.RAW), "under-way-in-the-extraction"
    first = next_offset(filled, settings)
    rows, plan = messages(filled, first, first + 1, record(keys=text)), planned(first, first + 1)
    meanwhile = once_after(raw._audit, lambda: erased(filled, settings, text=text))
    monkeypatch.setattr(raw, "_audit", meanwhile)
    with pytest.raises(publish.PublishConflictError):
        raw.write(filled, rows, plan, "extraction", committed)
    assert read_offsets(filled, settings, tables.RAW).positions == committed.positions


def test_what_finds_nothing_moves_no_change_seq(filled, settings):
    """A commit with no rows is no new input of the marts."""
    before = {table.name: read_offsets(filled, settings, table) for table in (tables.RAW, tables.EVENTS)}
    erased(filled, settings, text="nowhere")
    for table in (tables.RAW, tables.EVENTS):
        after, known = read_offsets(filled, settings, table), before[table.name]
        assert (after.positions, after.change_seq) == (known.positions, known.change_seq)
        assert after.head != known.head


def test_an_erasure_is_complete_only_where_nothing_of_it_came_back(filled, settings, monkeypatch, capfd):
    """Written behind its back, after all else was done."""
    run_jobs_on(settings, monkeypatch)
    monkeypatch.setattr(job, "rebuild_marts", lambda *_: True)
    text, real = "comes-back", job.forget

    def come_back() -> None:
        first = next_offset(filled, settings)
        rows = messages(filled, first, first + 1, record(keys=text))
        write(filled, settings, rows, planned(first, first + 1), "behind its back")

    def completed() -> int:
        return filled.table(tables.ERASURES.full_name).where("completed_at is not null").count()

    before = completed()
    monkeypatch.setattr(job, "forget", once_after(real, come_back))
    assert job.main(["--cluster", "c", "--key", text, "--yes"]) == 1
    assert "not done: 1 messages, 0 records" in capfd.readouterr().err
    assert completed() == before
    assert job.main(["--cluster", "c", "--key", text, "--yes"]) == 0
    assert completed() == before + 1


@pytest.fixture
def at_terminal(monkeypatch, settings):
    """Answer the question on a terminal; returns what calls the job so."""
    run_jobs_on(settings, monkeypatch)

    def call(answer: str, *arguments: str) -> int:
        master, slave = os.openpty()
        with os.fdopen(slave) as terminal, monkeypatch.context() as patch:
            patch.setattr("sys.stdin", terminal)
            os.write(master, answer.encode())
            try:
                return job.main([*arguments])
            finally:
                os.close(master)

    return call


def test_a_group_is_erased_from_the_facts_of_the_brokers(filled, settings):
    """With its retry and dead-letter topics, the producer of its trace, and its name where it was not answered."""
    catalog = lake(settings)

    def put(table: tables.Table, *rows: dict) -> None:
        loaded = catalog.load_table(table.name)
        schema = schema_to_pyarrow(loaded.schema(), include_field_ids=False)
        of_clusters = [{"cluster": each, "broker": "b", **row} for each in ("c", "another") for row in rows]
        loaded.append(pa.Table.from_pylist(of_clusters, schema=schema))

    names = (TEXT, f"ns%{TEXT}", "kept-group")
    for table in (tables.GROUPS, tables.CONSUMERS, tables.GROUP_OFFSETS, tables.SUBSCRIPTIONS):
        put(table, *({"group_name": name} for name in names))
    traces = [{"group_name": f"_INNER_TRACE_PRODUCER-{name}-CONSUME", "trace_of": name} for name in names]
    put(tables.PRODUCERS, *traces, {"group_name": TEXT})
    topics = [(f"%RETRY%{name}", name) for name in names] + [
        (f"%DLQ%{names[1]}", names[1]),
        (f"%RETRY%{TEXT}+t", TEXT),
    ]
    put(
        tables.TOPICS,
        *({"topic": topic, "of_group": group} for topic, group in topics),
        {"topic": f"ns%{TEXT}"},
    )
    put(tables.TOPIC_OFFSETS, *({"topic": topic} for topic, _ in topics), {"topic": f"ns%{TEXT}"})
    put(tables.MESSAGE_CHECKS, *({"consumer_group": name, "checked_at": CHECKED_AT} for name in names[::2]))
    put(tables.OBSERVATIONS, {"requests": [{"code": 203, "answered": 7, "unanswered": [TEXT, "kept-group"]}]})

    expected = 4 * 2 + 3 + 2 * 4 + 1 + 1
    assert erase_from_ops(filled, rule(Kind.GROUP), dry_run=True) == expected
    assert erase_from_ops(filled, rule(Kind.GROUP)) == expected
    facts = [table for table in tables.ALL if table.name.startswith("broker_facts.")]
    left = {table.name: filled.table(table.full_name).where("cluster = 'c'").collect() for table in facts}
    holding_it = {name: [row for row in rows if TEXT in str(row)] for name, rows in left.items()}
    assert {name for name, rows in holding_it.items() if rows} == {
        tables.TOPICS.name,
        tables.TOPIC_OFFSETS.name,
    }
    assert all(row["topic"] == f"ns%{TEXT}" for rows in holding_it.values() for row in rows), (
        "a topic of that name"
    )
    no_groups = (tables.BROKERS.name, tables.CLIENT_HOSTS.name)
    assert all("kept-group" in str(rows) for name, rows in left.items() if name not in no_groups)
    ((request,),) = [row["requests"] for row in left[tables.OBSERVATIONS.name]]
    assert (request["code"], request["answered"], request["unanswered"]) == (203, 7, ["kept-group"])
    others = sum(filled.table(table.full_name).where("cluster = 'another'").count() for table in facts)
    assert others == 4 * 3 + 4 + 2 * 6 + 2 + 1
    assert erase_from_ops(filled, rule(Kind.GROUP), dry_run=True) == 0


def test_a_message_is_erased_from_the_checks_of_messages(filled, settings):
    catalog = lake(settings)
    loaded = catalog.load_table(tables.MESSAGE_CHECKS.name)
    schema = schema_to_pyarrow(loaded.schema(), include_field_ids=False)
    rows = [
        {"cluster": cluster, "msg_id": msg_id, "consumer_group": group, "checked_at": CHECKED_AT}
        for cluster in ("c", "another")
        for msg_id in (TEXT, "kept-message")
        for group in ("g", None)
    ]
    loaded.append(pa.Table.from_pylist(rows, schema=schema))
    assert erase_from_ops(filled, rule(Kind.MSG_ID), dry_run=True) == 2
    assert erase_from_ops(filled, rule(Kind.MSG_ID)) == 2
    left = filled.table(tables.MESSAGE_CHECKS.full_name).where("msg_id is not null").collect()
    assert sorted((row["cluster"], row["msg_id"]) for row in left) == sorted(
        [("another", TEXT), ("another", "kept-message"), ("c", "kept-message")] * 2
    )


def test_an_erasure_shows_what_it_will_erase_and_asks(filled, settings, at_terminal, monkeypatch, capfd):
    """Only a yes erases; what is shown is that which is erased, in the key's own text."""
    first, text = next_offset(filled, settings), "order$42[red]"
    body = record(keys=text, group="ns%mail") + record(keys=text, group="ledger") + record(keys="order2")
    write(filled, settings, messages(filled, first, first + 2, body), planned(first, first + 2), "run")
    assert merge_all(filled, settings, "merge").records == 6
    monkeypatch.setattr(job, "rebuild_marts", lambda *_: True)
    arguments = ("--cluster", "c", f"--key={text}")
    begun, ended = (datetime.fromtimestamp(stored(n) / 1000, UTC) for n in (first, first + 1))

    def rules_booked() -> int:
        return filled.table(tables.ERASURES.full_name).count()

    rules_before = rules_booked()
    for answer in ("n\n", "\n", "\x04"):
        assert at_terminal(answer, *arguments) == 1
        said = " ".join(capfd.readouterr().err.split())
        assert f"to erase: key {text!r} of cluster 'c'" in said
        assert "messages 2 of lake.raw.trace_messages" in said
        assert (
            "records 4 in those messages; 4 rows of lake.events.trace_records, 0 of lake.ops and lake.broker_facts"
            in said
        )
        assert "groups ledger (2), ns%mail (2)" in said
        assert f"stored {begun:%Y-%m-%d %H:%M:%S} to {ended:%Y-%m-%d %H:%M:%S} UTC" in said
        assert "Erase this?" in said
        assert "nothing was erased" in said
    assert rules_booked() == rules_before
    assert at_terminal("y\n", *arguments) == 0
    assert "removed 4 records from 2 messages" in capfd.readouterr().err
    left = filled.table(tables.EVENTS.full_name).where(f"queue_offset >= {first}").collect()
    assert {row["keys"] for row in left} == {"order2"}


def test_without_a_terminal_an_erasure_needs_a_yes(settings, monkeypatch, capfd):
    """Before anything is started."""
    run_jobs_on(settings, monkeypatch)
    monkeypatch.setattr(job, "session", lambda *_: pytest.fail("it began"))
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        with pytest.raises(SystemExit) as ended:
            job.main(["--cluster", "c", "--key", "k"])
    assert ended.value.code == 2
    said = capfd.readouterr().err
    assert "YES=1" in said
    assert "nothing was erased" in said
