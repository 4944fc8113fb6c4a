"""The look-up shows of each message of the story what the story says, and reads only the files of the message's hours."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from spark_jobs.lookup import command
from spark_jobs.lookup.find import find_id, find_key
from spark_jobs.lookup.identifiers import identifier_hash
from spark_jobs.lookup.life import as_json
from spark_jobs.lookup.message import life
from spark_jobs.lookup.reader import INDEX, Reader
from spark_jobs.lookup.records import records
from spark_jobs.lookup.search import Conditions, SearchError, search
from spark_jobs.lookup.unknown import explain_unknown
from spark_jobs.lookup.wording import CAUSES, OUTCOMES, STATES
from spark_jobs.serving import files
from spark_jobs.serving.build import build
from spark_jobs.settings import Lookup, Serving
from tests.dbt.events import NOON, at

HOUR = 3600
DAY = 24 * HOUR
CLUSTER = "test"


@pytest.fixture(scope="module", params=[1_000_000, 0], ids=["copied", "in place"])
def reader(request, marts, settings):
    """A reader of the serving file of the story."""
    files.remove_all(settings)
    build(settings.model_copy(update={"serving": Serving(copied_rows=request.param)}))
    with Reader.open(settings) as found:
        yield found
    files.remove_all(settings)


@pytest.fixture
def life_of(reader):
    def of(msg_id: str):
        return life(reader, CLUSTER, msg_id)

    return of


def kinds(found) -> set[str]:
    return {doubt.kind for doubt in found.doubts}


def test_hashes_are_those_of_spark(marts):
    texts = ["", "order-1", "é", "名", "x" * 1000]
    rows = marts.createDataFrame([(CLUSTER, text) for text in texts], "cluster string, text string")
    in_spark = rows.selectExpr("text", "xxhash64(cluster, text) as hash").collect()
    assert {row.text: row.hash for row in in_spark} == {t: identifier_hash(CLUSTER, t) for t in texts}


def test_events_of_hours_are_those_stored_in_them(reader):
    ((first, last),) = [tuple(row.values()) for row in reader.query(_HOURS_WITH_EVENTS)]
    assert first < last
    for hours in ([first], [last], [first, last], []):
        source, parameters = reader.events(hours)
        found = reader.query(f"select count(*) as records from {source}", **parameters)
        stored = "store_time >= $first and store_time < $last + interval 1 hour" if hours else "false"
        bounds = {"first": hours[0], "last": hours[-1]} if hours else {}
        assert found == reader.query(
            f"select count(*) as records from events.trace_records where {stored}", **bounds
        )


_HOURS_WITH_EVENTS = """
  select min(date_trunc('hour', store_time)) as first, max(date_trunc('hour', store_time)) as last from events.trace_records"""


def test_a_consumed_message(life_of):
    found = life_of("ok")
    assert [(m.topic, m.state, m.published_at) for m in found.messages] == [("orders", "consumed", at(HOUR))]
    assert [step.what for step in found.steps] == ["sent", "stored"]
    (lane,) = found.lanes
    assert (lane.consumer_group, lane.outcome, lane.retries) == ("g", "succeeded", 0)
    (attempt,) = lane.attempts
    assert attempt.outcome == "success"
    assert attempt.wait.ms == 1000
    assert attempt.duration.usual.cases > 0
    assert found.absent == ()
    assert found.doubts == ()


def test_a_retried_message(life_of):
    (lane,) = life_of("second_time").lanes
    assert [(a.outcome, a.retry_times) for a in lane.attempts] == [("failed", 0), ("success", 1)]
    assert lane.outcome == "succeeded"
    assert lane.attempts[1].wait.ms > 0
    assert lane.attempts[1].wait.usual is None


def test_an_exhausted_message(life_of):
    found = life_of("last_try")
    assert found.messages[0].state == "failed"
    assert found.lanes[0].outcome == "exhausted"


@pytest.mark.parametrize(
    ("msg_id", "cause", "is_orphan"),
    [
        ("lost", "filtered_or_lost", True),
        ("lost_in_gap", "trace_gap", False),
        ("rolled_back", "rolled_back", False),
        ("recalled", "recalled", False),
        ("half_open", "half_uncommitted", False),
        ("delayed", "delayed_not_due", False),
        ("batch-1", "untraced_batch", False),
        ("just_sent", "within_grace", False),
        ("unwatched", "no_traced_group", True),
    ],
)
def test_a_group_that_never_came(life_of, msg_id, cause, is_orphan):
    (absent,) = life_of(msg_id).absent
    assert (absent.cause, absent.is_orphan) == (cause, is_orphan)
    assert absent.consumer_group == (None if cause == "no_traced_group" else "g")


def test_the_decisions_on_a_transaction(life_of):
    found = life_of("paid")
    assert [step.what for step in found.steps] == ["sent", "stored", "unknown", "unknown", "commit"]
    assert ["check" in step.text for step in found.steps] == [False, False, False, True, True]
    assert [step.what for step in life_of("recalled").steps if step.what == "recalled"] == ["recalled"]


def test_a_delayed_message_has_its_latest_delivery(life_of):
    (due,) = [step for step in life_of("delayed").steps if step.what == "due"]
    assert due.at == at(DAY - HOUR) + timedelta(hours=2)


def test_the_siblings_of_a_batch(life_of):
    assert life_of("batch-2").siblings == ("batch-1", "batch-3")


def test_a_broadcast_group_has_one_lane_per_client(life_of):
    assert [(lane.consumer_group, lane.client) for lane in life_of("to_all-0").lanes] == [
        ("everyone", "10.0.0.1:1"),
        ("everyone", "10.0.0.2:1"),
    ]


@pytest.mark.parametrize(
    ("msg_id", "kind", "says"),
    [
        ("lost_in_gap", "ingest_gap", "offsets 500 to 600"),
        ("ahead", "clock_skew", "before it was published"),
        ("again", "duplicate", "1 times more"),
        ("stored_twice", "duplicate", "1 extra copies"),
        ("resent", "duplicate", "sent 2 times"),
        ("just_sent", "incomplete", "may change until"),
        ("suspect", "suspect_time", "suspect"),
        ("unknown_pub", "unpublished", "no send"),
    ],
)
def test_what_is_doubtful(life_of, msg_id, kind, says):
    assert any(doubt.kind == kind and says in doubt.text for doubt in life_of(msg_id).doubts)


def test_an_invalid_record_of_a_client_is_a_doubt_of_its_messages_in_that_hour(reader):
    rows = reader.query("select client, hour from marts.invalid_records where client is not null limit 1")
    sends = reader.query(
        "select msg_id from marts.fct_sends where client = $client and hour = $hour limit 1", **rows[0]
    )
    assert sends, "the story has such a message"
    assert "invalid" in kinds(life(reader, CLUSTER, sends[0]["msg_id"]))


@pytest.mark.parametrize(
    ("identifier", "messages"),
    [
        ("ok", {"ok"}),
        ("broker-b-1", {"resent"}),
        ("o-go-2", {"o-go-2"}),
        ("unknown_pub", {"unknown_pub"}),
        ("no such", set()),
    ],
)
def test_a_message_is_found_by_its_ids(reader, identifier, messages):
    found = find_id(reader, identifier)
    assert ({match.msg_id for match in found.matches}, found.total) == (messages, len(messages))
    assert find_id(reader, identifier, "silent").total == 0


def test_every_message_is_found_and_has_a_life(reader):
    rows = reader.query(
        "select cluster, msg_id, state from marts.fct_messages using sample 60 rows (reservoir, 7)"
    )
    for row in rows:
        assert row["msg_id"] in {match.msg_id for match in find_id(reader, row["msg_id"]).matches}
        found = life(reader, row["cluster"], row["msg_id"])
        assert row["state"] in {message.state for message in found.messages}


def test_it_reads_only_the_files_of_the_hours(reader):
    # Its own reader: another one remembers the hours of identifiers, and so opens no file of the index.
    with Reader.open(reader.settings) as fresh:
        life(fresh, CLUSTER, "ok")
        listed = fresh.query("select table_name, path, bucket from serving.files")
    opened = [row for row in listed if row["path"] in fresh.paths_read]
    of_index = [row for row in opened if row["table_name"] == INDEX]
    facts = [row for row in listed if row["table_name"].startswith("marts.")]
    opened_facts = [row for row in facts if row in opened]
    assert (
        len({row["bucket"] for row in of_index})
        == 1
        < len({row["bucket"] for row in listed if row["table_name"] == INDEX})
    )
    assert len(opened) - len(of_index) <= 12
    assert len(opened_facts) <= len(facts) / 3
    assert bool(opened_facts) == bool(facts)


def test_json_has_everything(life_of):
    decoded = json.loads(as_json(life_of("second_time")))
    assert decoded["messages"][0]["published_at"].endswith("Z")
    assert [a["outcome"] for a in decoded["lanes"][0]["attempts"]] == ["failed", "success"]


def test_an_unknown_id_says_whether_the_traces_were_complete(reader):
    day = NOON + timedelta(hours=6)
    since = day - day.replace(day=1, hour=0)
    client_id = f"0A000001{4711:04X}00C0FFEE{int(since / timedelta(milliseconds=1)):08X}0001"
    assert find_id(reader, client_id).total == 0
    text = "\n".join(explain_unknown(reader, client_id))
    assert "process 4711 on 10.0.0.1" in text
    assert "Cluster test: the warehouse has traces from" in text
    assert "Cluster silent: there are no traces yet" in text
    assert f"{day:%Y-%m-%d}" in text
    assert "no generated message id" in "\n".join(explain_unknown(reader, "nonsense"))


def test_a_link_to_the_trace_of_an_apm(reader):
    ours = replace(
        reader,
        settings=reader.settings.model_copy(
            update={"lookup": Lookup(trace_url="http://jaeger:16686/search?q={msg_id}&t={published_ms}")}
        ),
    )
    sent = int(at(HOUR).timestamp() * 1000)
    assert life(ours, CLUSTER, "ok").trace_url == f"http://jaeger:16686/search?q=ok&t={sent}"


@pytest.mark.parametrize("of_state", STATES)
def test_search_by_state(reader, of_state):
    rows = reader.query(
        "select count(*) as n, min(coalesce(published_at, first_attempt_at)) as first, "
        "max(coalesce(published_at, first_attempt_at)) as last from marts.fct_messages where state = $state",
        state=of_state,
    )[0]
    if not rows["n"]:
        pytest.fail(f"the story has no message that is {of_state}")
    everything = {
        "start": f"{rows['first'] - timedelta(hours=1)}",
        "end": f"{rows['last'] + timedelta(hours=1)}",
    }
    found = search(reader, Conditions.parse(state=of_state, **everything))
    assert found.total == rows["n"]
    assert len(found.rows) == min(100, found.total)
    assert {hit.state for hit in found.rows} == {of_state}
    assert [hit.at for hit in found.rows] == sorted((hit.at for hit in found.rows), reverse=True)


def test_search_by_topic_group_and_duration(reader):
    day = {"start": f"{NOON}", "end": f"{NOON + timedelta(days=1)}"}
    of_group = search(reader, Conditions.parse(topic="orders", group="g", **day))
    expected = reader.query(
        "select count(distinct msg_id) as n from (select msg_id from marts.fct_deliveries where consumer_group = 'g' and topic = "
        "'orders' union all select msg_id from marts.orphaned_messages where expected_group = 'g' and topic = 'orders')"
    )[0]["n"]
    assert of_group.total == expected > 10
    slow = search(reader, Conditions.parse(group="stopwatch", min_ms="5000", **day))
    expected = reader.query(
        "select count(*) as n from marts.fct_deliveries where consumer_group = 'stopwatch' and end_to_end_ms >= 5000"
    )[0]["n"]
    assert slow.total == expected > 0
    assert search(reader, Conditions.parse(topic="no such topic", **day)).total == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "lost"},
        {"start": "yesterday"},
        {"end": "2026-11-20T12:00+02:00"},
        {"min_ms": "-1"},
        {"min_ms": "1e3"},
    ],
)
def test_a_wrong_condition_is_refused(wrong):
    with pytest.raises(SearchError, match=next(iter(wrong.values())).replace("+", "[+]")):
        Conditions.parse(**wrong)


def test_every_state_outcome_and_cause_has_words(reader):
    for column, table, words in (
        ("state", "fct_messages", STATES),
        ("outcome", "fct_deliveries", OUTCOMES),
        ("cause", "orphaned_messages", CAUSES),
    ):
        found = reader.query(f"select distinct {column} as value from marts.{table}")
        assert {row["value"] for row in found} <= words.keys()


def run(reader, monkeypatch, capsys, *arguments: str) -> str:
    monkeypatch.setenv("TRACE_HOME", str(reader.settings.home))
    assert command.main(arguments) == 0
    return capsys.readouterr().out


def test_the_command_prints_the_life_of_a_message(reader, monkeypatch, capsys):
    text = run(reader, monkeypatch, capsys, "message", "--id", "second_time")
    for shown in ("topic orders: consumed", "group g: succeeded", "failed", "p50", "files"):
        assert shown in text
    decoded = json.loads(
        run(reader, monkeypatch, capsys, "message", "--id", "second_time", "--format", "json")
    )
    assert [a["outcome"] for a in decoded["lanes"][0]["attempts"]] == ["failed", "success"]
    assert "no record has nothing" in run(reader, monkeypatch, capsys, "message", "--id", "nothing")
    assert (
        json.loads(run(reader, monkeypatch, capsys, "message", "--key", "[red]", "--format", "json"))[
            "unknown"
        ]
        == "[red]"
    )
    assert "no record has [red]x" in run(reader, monkeypatch, capsys, "message", "--id", "[red]x")


def test_the_command_lists_messages(reader, monkeypatch, capsys):
    start = str(NOON)
    text = run(
        reader, monkeypatch, capsys, "search", "--topic", "latency", "--start", start, "--end", str(at(DAY))
    )
    assert "first 100 of 801 messages" in text
    assert command.main(["search", "--state", "lost"]) == 2
    assert "state 'lost' is none of" in capsys.readouterr().err


def test_records_are_listed_though_raw_has_no_messages(reader):
    found = records(reader, CLUSTER, "second_time")
    assert [each.record_type for each in found] == ["Pub", "SubBefore", "SubAfter", "SubBefore", "SubAfter"]
    assert {each.text for each in found} == {None}
    shown = life(reader, CLUSTER, "second_time")
    anchors = {each.anchor for each in found}
    assert {name for lane in shown.lanes for attempt in lane.attempts for name in attempt.records} <= anchors
    assert {step.record for step in shown.steps if step.record} <= anchors


HOSTILE = [
    '"><script>alert(1)</script>',
    "' or 1=1 --",
    "'; drop table x",
    "%",
    "\\",
    "\x00",
    "é" * 5000,
    "$text",
    "?",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_finds_nothing(reader, text):
    assert find_id(reader, text).total == 0
    assert find_key(reader, text).total == 0
    assert life(reader, text, text) is None
    assert search(reader, Conditions.parse(topic=text, group=text, cluster=text)).total == 0
    explain_unknown(reader, text)
