"""The pages of the look-up show one message, a search, or the reason why not."""

from __future__ import annotations

import html
import json
import re
import shutil
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from spark_jobs.lookup.wording import CAUSES
from tests.plugins import served
from tests.plugins.served import CLUSTER, HOSTILE, HOUR, MARKUP, PLAIN, escaped, policy_of

TODAY = f"from={HOUR:%Y-%m-%dT%H:%M}"


@pytest.mark.parametrize(
    "query", [f"id={PLAIN}", f"id=o-{PLAIN}", "key=order-1", f"id=%20{PLAIN}%20&cluster={CLUSTER}"]
)
def test_one_message_is_opened(pages, query):
    answer = pages.get(f"/messages?{query}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/messages/{CLUSTER}/{PLAIN}")


def test_several_messages_are_listed(pages):
    page = pages.get("/messages?key=shared").text
    assert '<h2 id="results">2 messages</h2>' in page
    assert set(re.findall(r'<a href="(/messages/test/[^"]*)"', page)) == {
        f"/messages/{CLUSTER}/{m}" for m in (PLAIN, "other")
    }


def test_an_unknown_id_is_explained(pages):
    for address in (
        "/messages?id=0A000001000700C0FFEE0000000A0002",
        f"/messages/{CLUSTER}/nonsense",
        f"/messages/{CLUSTER}/nonsense/records",
    ):
        answer = pages.get(address)
        assert answer.status_code == 404
        assert "The id is unknown" in answer.text
        assert "complete up to 2026-11-20 14:00 UTC" in answer.text
        assert '<form action="/messages"' in answer.text


def test_a_message(pages):
    page = pages.get(f"/messages/{CLUSTER}/{PLAIN}").text
    for shown in (
        *(
            "2026-11-20 12:01:00.000",
            "2026-11-20 12:01:01.000",
            "12 ms",
            "125 ms",
            "1 min",
            "2 min 6 s",
            "1 retry",
        ),
        *(
            "the listener threw an exception",
            "order-1",
            "sent to orders by p",
            "10.0.0.1@7",
            "Publication publication-1",
        ),
        "complete up to 2026-11-20 14:00:00.000 UTC",
    ):
        assert shown in page, shown
    assert re.search(r"\d+ of \d+ data files were read", page)
    raw = pages.get(f"/messages/{CLUSTER}/{PLAIN}/records").text
    (link,) = re.findall(r'href="([^"]+)">record</a>', page)
    assert link.partition("#")[0] == f"/messages/{CLUSTER}/{PLAIN}/records"
    assert f'<li id="{link.partition("#")[2]}">' in raw
    assert f"Pub|1|region|p|orders|{PLAIN}|tag|order-1 shared" in raw


def test_json_is_what_the_page_offers_to_copy(pages):
    answer = pages.get(f"/messages/{CLUSTER}/{PLAIN}?format=json")
    assert answer.headers["content-type"] == "application/json"
    assert policy_of(answer)["default-src"] == "'none'"
    found = answer.json()
    assert (found["msg_id"], [a["outcome"] for a in found["lanes"][0]["attempts"]]) == (
        PLAIN,
        ["exception", "success"],
    )
    (copied,) = re.findall(
        r"<textarea[^>]*>\n(.*?)</textarea>", pages.get(f"/messages/{CLUSTER}/{PLAIN}").text, re.DOTALL
    )
    assert json.loads(copied.replace("&#34;", '"')) == found
    unknown = pages.get(f"/messages/{CLUSTER}/nonsense?format=json")
    assert (unknown.status_code, unknown.json()["error"]) == (404, "id is unknown")
    assert unknown.json()["explained"]


def test_orphans_are_listed_with_links(pages):
    page = pages.get(f"/messages?state=orphaned&{TODAY}&topic=orders&group=g").text
    assert "1 message<" in page
    (link,) = re.findall(r'<a href="(/messages/test/[^"]*)"', page)
    message = pages.get(link).text
    assert "Groups that have not consumed it" in message
    assert f"<b>g</b>: {CAUSES['filtered_or_lost']}" in html.unescape(message)


def test_a_search_shows_its_limit(home, pages, monkeypatch):
    monkeypatch.setattr("spark_jobs.lookup.search.LIMIT", 3)
    page = pages.get(f"/messages?{TODAY}").text
    assert f"First 3 of {len(HOSTILE) + 4} messages" in page


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("topic=a%22b&from=yesterday", "is not a time"),
        ("topic=a%22b&to=2026-11-20T12:00%2B02:00", "has a time zone"),
        ("topic=a%22b&state=lost", "is none of"),
        ("topic=a%22b&min_ms=-1", "not a number of milliseconds"),
        ("topic=a%22b&from=2026-11-20&to=2026-11-19", "is not before the end"),
    ],
)
def test_a_wrong_condition_is_named_beside_the_form_that_keeps_it(pages, query, says):
    answer = pages.get(f"/messages?{query}")
    assert answer.status_code == 400
    (error,) = re.findall(r'class="error" role="alert">([^<]*)<', answer.text)
    assert says in error
    assert 'name="topic" value="a&#34;b"' in answer.text
    for name, (value,) in parse_qs(query).items():
        assert (
            f'name="{name}" value="{escaped(value)}"' in answer.text
            or f"<option selected>{escaped(value)}</option>" in answer.text
        )


@pytest.mark.parametrize("query", ["id=", "id=&key=", "id=a&key=b"])
def test_an_id_or_a_key_is_looked_up(pages, query):
    answer = pages.get(f"/messages?{query}")
    assert answer.status_code == 400
    assert "write either an id or a key" in answer.text


def test_without_a_serving_file_the_page_says_what_to_do(warehouse, viewer):
    for address in ("/messages", f"/messages/{CLUSTER}/{PLAIN}"):
        answer = viewer.get(address)
        assert answer.status_code == 503
        assert "<h1>Messages cannot be shown now</h1>" in answer.text
        assert "or wait for trace_marts" in answer.text


def test_a_file_that_is_gone_is_no_crash(warehouse, viewer):
    """An erasure removes at once the data files that an older serving file reads."""
    served.serve(warehouse, served.together(served.consumed(PLAIN)))
    for file in (warehouse.settings.home / "warehouse" / "raw").rglob("*.parquet"):
        file.unlink()
    answer = viewer.get(f"/messages/{CLUSTER}/{PLAIN}/records")
    assert answer.status_code == 503
    assert "Reload the page" in answer.text
    assert viewer.get(f"/messages/{CLUSTER}/{PLAIN}").status_code == 200


def test_the_serving_file_of_a_copied_lake_is_not_read(home, viewer, monkeypatch, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(home.settings.home, copy, symlinks=True)
    monkeypatch.setenv("TRACE_HOME", str(copy))
    answer = viewer.get("/messages")
    assert answer.status_code == 503
    assert f"file:{home.settings.home}/warehouse" in answer.text


def test_an_alert_on_messaging_links_to_its_messages(home, pages, monkeypatch):
    seen = HOUR + timedelta(hours=1, seconds=1)
    rows = [
        {"identity": "a", "check": "orphan_rate", "entity": f"{CLUSTER}/orders/g"},
        {"identity": "b", "check": "lag", "entity": f"{CLUSTER}/T/b/0"},
        {"identity": "c", "check": "orphan_rate", "entity": f"{CLUSTER}/{MARKUP}/g"},
    ]
    home.append(
        "ops.alerts", pa.Table.from_pylist([row | {"state": "open", "last_seen_at": seen} for row in rows])
    )
    links = re.findall(r'href="([^"]+)">messages</a>', pages.get("/alerts").text)
    fields = [parse_qs(urlsplit(link.replace("&amp;", "&")).query) for link in links]
    time = {"from": ["2026-11-19T13:00"], "to": ["2026-11-20T13:01"]}
    assert {"cluster": [CLUSTER], "topic": ["orders"], "group": ["g"], "state": ["orphaned"]} | time in fields
    assert len(fields) == 2
    page = pages.get(links[0].replace("&amp;", "&")).text
    assert "<script>alert" not in page
    assert 'name="group" value="g"' in page


def test_pages_are_for_everyone(pages):
    """One h1, headings in order, labels of fields, headers of tables, the language; of each page."""
    for address in (
        "/messages",
        f"/messages?{TODAY}&group=g",
        "/messages?id=x",
        f"/messages/{CLUSTER}/{PLAIN}",
        f"/messages/{CLUSTER}/{PLAIN}/records",
    ):
        page = pages.get(address).text
        assert '<html lang="en">' in page
        levels = [int(level) for level in re.findall(r"<h(\d)", page)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False)), address
        ids = re.findall(r' id="([^"]+)"', page)
        assert len(ids) == len(set(ids)), address
        fields = re.findall(r'<(?:input|select) id="([^"]+)"', page)
        assert sorted(fields) == sorted(re.findall(r'<label for="([^"]+)"', page))
        for reference in re.findall(r'aria-(?:labelledby|describedby)="([^"]+)"', page):
            assert reference in ids, reference
        assert all("scope=" in each for each in re.findall(r"<th\b[^>]*>", page))
        assert all("aria-label" in each for each in re.findall(r"<table[^>]*>", page))
        assert page.index('href="#content"') < page.index("<nav") < page.index('<main id="content"')
