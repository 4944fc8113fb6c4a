"""What the look-up finds of messages that only some tables know, and how the command prints it; no Spark."""

from __future__ import annotations

import json

import duckdb
import pytest

from spark_jobs.lake.catalog import lake
from spark_jobs.lookup import command, lanes, message
from spark_jobs.lookup.find import find_id, find_key
from spark_jobs.lookup.message import life
from spark_jobs.lookup.reader import Reader, Span
from spark_jobs.lookup.records import records
from spark_jobs.lookup.search import Conditions, search
from spark_jobs.settings import Settings
from tests.plugins import served
from tests.plugins.conftest import Warehouse
from tests.plugins.odd_messages import DAY, GO, UPPER, world
from tests.plugins.served import CLUSTER, HOUR


def naive(time):
    return time.replace(tzinfo=None)


@pytest.fixture(scope="module", params=[True, False], ids=["copied", "in place"])
def settings(request, tmp_path_factory) -> Settings:
    folder = tmp_path_factory.mktemp("found")
    (folder / "warehouse").mkdir()
    found = Settings(home=folder)
    served.serve(Warehouse(found, lake(found)), world(), (CLUSTER, "other"), copied=request.param)
    return found


@pytest.fixture
def reader(settings):
    with Reader.open(settings) as found:
        yield found


@pytest.fixture
def run(settings, monkeypatch, capsys):
    monkeypatch.setenv("TRACE_HOME", str(settings.home))

    def of(*arguments: str, code: int = 0) -> str:
        assert command.main(arguments) == code
        shown = capsys.readouterr()
        return shown.err if code else shown.out

    return of


def ids(found) -> set[str]:
    assert found.total == len(found.matches)
    return {match.msg_id for match in found.matches}


@pytest.mark.parametrize(("find", "text"), [(find_id, "M1"), (find_id, "T1"), (find_key, "ktx")])
def test_a_message_with_only_a_decision_is_found_and_shown(reader, find, text):
    assert ids(find(reader, text)) == {"M1"}
    found = life(reader, CLUSTER, "M1")
    assert found.messages == ()
    assert len(found.steps) == 1
    assert any(doubt.kind == "unpublished" for doubt in found.doubts)


def test_a_failed_recall_is_shown(reader):
    assert ids(find_id(reader, "R1")) == {"R1"}
    (step,) = life(reader, CLUSTER, "R1").steps
    assert "and failed" in step.text


def test_the_command_prints_a_decision_and_never_fails(run):
    for option, text in (("--id", "M1"), ("--id", " T1 "), ("--key", " ktx ")):
        assert "M1 in cluster test" in run("message", option, text)
    assert "no record has T2" in run("message", "--id", "T2")


def test_ids_of_the_events_are_those_of_the_facts(reader):
    assert ids(find_key(reader, "comma")) == {"a,b"}
    assert ids(find_key(reader, "go-key")) == {"o1", "o2"}
    assert find_id(reader, "T2").total == 0, "null and an empty text are no ids"


def test_a_send_to_a_retry_topic_is_found(reader):
    assert ids(find_id(reader, "sent-again")) == {"sent-again"}
    assert ids(find_id(reader, "o-sent-again")) == {"sent-again"}


def test_a_key_is_looked_for_in_the_facts_and_in_later_records(reader):
    found = find_key(reader, "shared")
    assert ids(found) == {"plain", "only-after"}
    assert {match.topic for match in found.matches} == {"orders", "t"}


def test_the_topic_is_that_of_the_newest_record(reader):
    (match,) = find_id(reader, "twice").matches
    assert match.topic == "apple"


def test_hex_digits_match_in_either_case(reader):
    for text in (UPPER, UPPER.lower()):
        assert ids(find_id(reader, text)) == {UPPER}
    for text in (GO, GO.upper(), GO.lower()):
        assert ids(find_id(reader, text)) == {GO}
    assert find_id(reader, "PLAIN").total == 0


def test_the_wait_of_an_attempt_without_begin_is_unknown(reader):
    (lane,) = life(reader, CLUSTER, "no-begin").lanes
    assert [attempt.wait and attempt.wait.ms for attempt in lane.attempts] == [1000, None]


def test_keys_are_separated_by_spaces_only(reader):
    assert life(reader, CLUSTER, "tabbed").keys == ("tab\tbed", "other")
    assert ids(find_key(reader, "tab\tbed")) == {"tabbed"}


def test_a_search_by_topic_and_group_is_of_one_topic(reader):
    day = {"start": f"{naive(HOUR)}", "end": f"{naive(HOUR + DAY)}"}
    of_group = search(reader, Conditions.parse(group="only-zebra", **day))
    assert [(hit.msg_id, hit.topic) for hit in of_group.rows] == [("twice", "zebra")]
    assert search(reader, Conditions.parse(group="only-zebra", topic="apple", **day)).total == 0
    of_unknown = search(reader, Conditions.parse(group="of-nameless", **day))
    assert [(hit.msg_id, hit.topic) for hit in of_unknown.rows] == [("nameless", None)]


@pytest.mark.parametrize(
    ("group", "msg_id", "start"), [("late-group", "late", HOUR - 31 * DAY), ("early-group", "early", HOUR)]
)
def test_a_search_by_group_reads_deliveries_of_any_hour(reader, group, msg_id, start):
    conditions = Conditions.parse(group=group, start=f"{naive(start)}", end=f"{naive(start + 2 * DAY)}")
    assert [hit.msg_id for hit in search(reader, conditions).rows] == [msg_id]


def test_a_search_of_the_future_still_reads_deliveries_to_its_end(reader):
    conditions = Conditions.parse(group="g", start=f"{naive(HOUR)}", end=f"{naive(HOUR + 300 * DAY)}")
    assert search(reader, conditions).total > 0


def test_a_range_of_centuries_is_two_parameters(reader):
    last = naive(HOUR)
    source, parameters = reader.source("marts.fct_deliveries", Span(last.replace(year=1970), last))
    found = reader.query(f"select count(*) as n from {source}", **parameters)
    assert found[0]["n"] > 0
    assert not any(isinstance(value, list) and len(value) > 100 for value in parameters.values())
    source, parameters = reader.source("marts.fct_deliveries", Span(last.replace(year=1970), last - 2 * DAY))
    assert reader.query(f"select count(*) as n from {source}", **parameters)[0]["n"] == 0


def test_a_search_may_have_a_key(reader, run):
    assert [hit.msg_id for hit in search(reader, Conditions.parse(key="shared")).rows] == ["plain"]
    assert search(reader, Conditions.parse(key="shared", topic="zebra")).total == 0
    assert search(reader, Conditions.parse(key="no such key", topic="orders")).total == 0
    assert [
        hit["msg_id"] for hit in json.loads(run("search", "--key", " shared ", "--format", "json"))["rows"]
    ] == ["plain"]


def test_the_hint_for_an_id_of_two_clusters(run):
    assert "choose one with ID=… CLUSTER=…" in run("message", "--id", "both")
    assert "CLUSTER=" not in run("message", "--key", "go-key")


def test_records_that_retention_dropped(run, settings):
    assert "events no longer has its records (retention)" in run("message", "--id", "expired", "--records")


def test_what_duckdb_refuses_is_one_line(run, monkeypatch):
    def fail(*_):
        raise duckdb.IOException("IO Error: gone.parquet\nmore")

    monkeypatch.setattr(command, "find_id", fail)
    text = run("message", "--id", "x", code=1)
    assert text.startswith("failed: IO Error: gone.parquet; run it again: a publication may")
    assert text.count("\n") == 1


def test_bytes_that_are_no_text_are_no_crash(run, reader):
    for text in ("x", "\udcff"):
        shown = run("message", "--id", text, "--cluster", "\udcff", "--format", "json")
        assert json.loads(shown.encode())["unknown"] == text
    for name in ("topic", "group", "key", "cluster"):
        assert "is not UTF-8" in run("search", f"--{name}", "\udcff", code=2)


def test_long_records_ids_and_keys_are_printed_whole(run):
    assert "k" * 1500 in run("message", "--id", "long-key", "--records")
    assert "k" * 1500 in run("message", "--id", "long-key")
    assert "|tab\\u0009bed  other" in run("message", "--id", "tabbed", "--records")


def test_files_are_counted_once(reader):
    for _ in range(20):
        found = life(reader, CLUSTER, "plain")
    assert 0 < found.files_read <= found.files_total


def test_what_is_cut_has_its_total(reader, run, monkeypatch):
    monkeypatch.setattr(message, "SIBLINGS", 2)
    monkeypatch.setattr(message, "STEPS", 1)
    monkeypatch.setattr(lanes, "ATTEMPTS", 1)
    monkeypatch.setattr(command, "_SHOWN", 1)
    found = life(reader, CLUSTER, "batch-1")
    assert (found.siblings, found.siblings_total) == (("batch-0", "batch-2"), 3)
    assert (len(found.steps), found.steps_total) == (1, 2)
    assert (len(found.lanes[0].attempts), found.lanes[0].attempts_total) == (1, 2)
    text = run("message", "--id", "batch-1")
    assert "in a batch with batch-0 and 2 more" in text
    assert text.count("the first 1 of 2") == 2


def test_records_are_those_of_the_same_position(reader):
    (found,) = records(reader, CLUSTER, "plain")
    assert "|plain|" in found.text


@pytest.fixture
def pages(settings, viewer, monkeypatch):
    monkeypatch.setenv("TRACE_HOME", str(settings.home))
    return viewer


def test_a_decision_has_a_page(pages):
    answer = pages.get("/messages?id=T1")
    assert answer.status_code == 200
    assert "the producer decided" in answer.text
    assert "only decisions on it are known" in answer.text


def test_the_records_page_of_a_message_whose_records_are_gone(pages):
    answer = pages.get(f"/messages/{CLUSTER}/expired/records")
    assert answer.status_code == 200
    assert "no longer has its records (retention)" in answer.text
    assert pages.get(f"/messages/{CLUSTER}/nonsense/records").status_code == 404


def test_the_form_searches_a_key_with_other_conditions(pages):
    page = pages.get("/messages?key=shared&topic=orders&group=").text
    assert '<h2 id="results">1 message</h2>' in page
    assert '<input id="key-of-search" name="key" value="shared"' in page
    assert "0 messages</h2>" in pages.get("/messages?key=shared&topic=zebra").text
    answer = pages.get("/messages?id=plain&topic=orders")
    assert answer.status_code == 400
    assert "find an id without other conditions" in answer.text


def test_the_page_has_the_totals_of_what_is_cut(pages, monkeypatch):
    monkeypatch.setattr(message, "SIBLINGS", 2)
    monkeypatch.setattr(lanes, "ATTEMPTS", 1)
    page = pages.get(f"/messages/{CLUSTER}/batch-1").text
    assert "3 messages of the same send; the first 2:" in page
    assert page.count("The first 1 of 2.") == 1


def test_an_unknown_producer_group_is_no_topic(reader):
    duration = life(reader, CLUSTER, "plain").steps[0].duration
    assert duration.usual.of == "sends of an unknown group to orders"
