"""The pages of the look-up in a browser, on real traffic: they show what the clients recorded that they did."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect

from sandbox.record import Event
from sandbox.scenarios import AUDIT, INVOICES, MAIL, ORDERS, PAYMENTS, PRICE_CACHE, groups_of
from spark_jobs.lake.catalog import lake
from spark_jobs.lookup.wording import CAUSES, DECISIONS
from spark_jobs.serving.build import build
from tests.e2e.browser import (
    DESKTOP,
    PHONE,
    chromium,
    is_too_wide,
    log_in,
    needs_chromium,
    watched,
)
from tests.e2e.shown import CLOCK, Shown, assert_consumed, assert_sent, at, read, sends
from tests.e2e.test_marts_equal_the_record import OUTCOMES
from tests.records import Record

pytestmark = needs_chromium
PAGES = "/trace-warehouse"
HOSTILE = [
    '"><script>alert(1)</script>',
    "' or 1=1; drop table x --",
    "..",
    "a/b?c#d%2F",
    "é名😀",
    "x" * 10_000,
]


@pytest.fixture(scope="module")
def record(world) -> Record:
    return world.record()


@pytest.fixture(scope="module")
def calls(record) -> dict[str, list[Event]]:
    """By message id the traced calls of listeners."""
    found: dict[str, list[Event]] = defaultdict(list)
    for consume in record.consumes:
        if consume["traced"]:
            found[consume["msg_id"]].append(consume)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def session(server, browser) -> dict[str, Any]:
    """Cookies of a user who was sent to the login page by a permanent link, and came back to it."""
    context = browser.new_context(base_url=server.url)
    page, seen = watched(context)
    page.goto(f"{PAGES}/messages?state=orphaned")
    page.wait_for_url("**/auth/login**")
    log_in(page, server.password)
    page.wait_for_url(f"**{PAGES}/messages?state=orphaned")
    expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
    expect(page.get_by_label("State")).to_have_value("orphaned")
    assert seen == []
    found = context.storage_state()
    context.close()
    return found


@pytest.fixture
def page(server, browser, session) -> Iterator[Page]:
    """A tab of a user who is logged in; nothing may run on it but our script."""
    width, height = DESKTOP
    context = browser.new_context(
        base_url=server.url, storage_state=session, viewport={"width": width, "height": height}
    )
    found, seen = watched(context)
    yield found
    context.close()
    assert seen == []


def opened(page: Page, msg_id: str) -> Shown:
    """The page of a message, also on a phone."""
    answer = page.goto(f"{PAGES}/messages/demo/{msg_id}")
    assert answer.status == 200
    shown = read(page)
    assert shown.heading == f"Message {msg_id}"
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert not is_too_wide(page)
    page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
    return shown


def test_a_message_that_every_group_consumed(page, record, calls):
    send = next(
        send
        for send in sends(record, "normal")
        if len(calls[send["msg_id"]]) == len(groups_of(send["topic"], send["tags"])) > 2
        and {call["outcome"] for call in calls[send["msg_id"]]} == {"success"}
    )
    shown = opened(page, send["msg_id"])
    assert shown.states == ["consumed"]
    assert {lane.outcome for lane in shown.lanes} == {"succeeded"}
    assert shown.absent == []
    assert_sent(shown, send)
    assert_consumed(shown, calls[send["msg_id"]])


def test_a_retried_message(page, record, calls):
    send = next(
        send
        for send in sends(record, "normal")
        if max((call["reconsume_times"] for call in calls[send["msg_id"]]), default=0) == 3
        and any(c["outcome"] == "success" and c["reconsume_times"] == 3 for c in calls[send["msg_id"]])
    )
    shown = opened(page, send["msg_id"])
    assert shown.states == ["consumed"]
    assert len(shown.lane(MAIL.group).attempts) == 4
    assert_sent(shown, send)
    assert_consumed(shown, calls[send["msg_id"]])


def test_an_exhausted_message(page, record, calls):
    """Its group has `max_reconsume_times` 2; the broker has given it up after the third call in vain."""
    send = next(
        send
        for send in sends(record, "normal", topic=PAYMENTS)
        if [call["outcome"] for call in calls[send["msg_id"]]]
        == ["exception"] * (INVOICES.max_reconsume_times + 1)
    )
    shown = opened(page, send["msg_id"])
    assert shown.states == ["failed"]
    assert shown.lane(INVOICES.group).outcome == "exhausted"
    assert_consumed(shown, calls[send["msg_id"]])


def test_orphans(page, record):
    filtered = sends(record, "filtered")[0]
    shown = opened(page, filtered["msg_id"])
    assert (shown.states, shown.lanes) == (["orphaned"], [])
    assert shown.absent == [f"orphan {INVOICES.group}: {CAUSES['passed_untraced']}."]
    assert_sent(shown, filtered)
    unconsumed = opened(page, sends(record, "unconsumed")[0]["msg_id"])
    assert unconsumed.absent == [f"orphan No group was expected: {CAUSES['no_traced_group']}."]


@pytest.mark.parametrize("plan", ["commit", "rollback", "unknown,commit", "unknown,rollback"])
def test_a_transaction(page, record, calls, plan):
    send = sends(record, "transaction", transaction_plan=plan)[0]
    shown = opened(page, send["msg_id"])
    decisions = sorted(
        (each for each in record.transactions if each["msg_id"] == send["msg_id"]),
        key=lambda each: each["at_ms"],
    )
    found = [step for step in shown.steps if step.record and "EndTransaction-" in step.record]
    assert [step.text for step in found] == [
        DECISIONS[each["state"]] + (", in answer to a check of the broker" if each["check"] else "")
        for each in decisions
    ]
    assert all(abs(step.at - at(each["at_ms"])) < CLOCK for step, each in zip(found, decisions, strict=True))
    assert_sent(shown, send)
    assert_consumed(shown, calls[send["msg_id"]])
    assert shown.states == ["consumed" if plan.endswith("commit") else "withheld"]
    if plan.endswith("rollback"):
        # The group is expected from its first attempt on the topic, which may be later.
        assert [each.partition(": ")[2] for each in shown.absent] == [f"{CAUSES['rolled_back']}."]


def test_a_batch(page, record):
    send = sends(record, "batch")[0]
    first, second, *others = send["msg_ids"]
    shown = opened(page, second)
    assert shown.states == ["untraced"]
    assert shown.siblings == [first, *others]
    assert f"as number 2 of a batch of {send['batch_size']}" in shown.steps[0].text
    assert_sent(shown, send)
    page.get_by_role("link", name=others[0]).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Message {others[0]}")


def test_a_delayed_message(page, record, calls):
    send = sends(record, "delay")[0]
    shown = opened(page, send["msg_id"])
    (due,) = [step for step in shown.steps if step.text.startswith("delayed")]
    assert due.at > at(send["sent_at_ms"])
    assert_sent(shown, send)
    assert_consumed(shown, calls[send["msg_id"]])


def test_a_broadcast_message_has_a_lane_per_client(page, calls):
    msg_id, heard = next(
        (m, c) for m, c in calls.items() if len({e["client_id"] for e in c if e["broadcast"]}) > 1
    )
    shown = opened(page, msg_id)
    assert len(shown.lanes) == len({call["client_id"] for call in heard}) == len(shown.group_names)
    assert all(name.startswith(f"{PRICE_CACHE.group}, client ") for name in shown.group_names)
    assert {lane.outcome for lane in shown.lanes} == {"succeeded"}


def test_what_was_consumed_and_never_published(page, record, calls):
    """Of a transactional producer of 4.5.2, which cannot be traced."""
    send = next(
        send
        for send in record.sends
        if send["release"] == "4.5.2"
        and send["producer_group"] == "payment-producer"
        and calls[send["msg_id"]]
    )
    shown = opened(page, send["msg_id"])
    assert shown.states == ["unpublished"]
    assert "no send of it is known" in "".join(shown.doubts)
    assert [lane.name for lane in shown.lanes] == [INVOICES.group]


@pytest.fixture
def gap(world, record) -> Iterator[Event]:
    """A send whose records may be among those that the broker is said to have deleted; the mart's rows stay as they are."""
    send = sends(record, "filtered")[0]
    table = lake(world.settings).load_table("ops.ingest_gaps")
    row = {
        **{
            "cluster": "demo",
            "trace_topic": send["trace_topic"],
            "broker": "gone",
            "queue_id": 0,
            "epoch": 0,
        },
        **{
            "from_offset": 4711,
            "to_offset": 4811,
            "from_time": at(send["sent_at_ms"]) - timedelta(seconds=1),
        },
        **{
            "to_time": at(send["sent_at_ms"]) + timedelta(seconds=1),
            "detected_at": datetime.now(UTC),
            "run_id": "t",
        },
    }
    table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))
    build(world.settings)
    yield send
    table.refresh()
    table.delete("broker == 'gone'")
    build(world.settings)


def test_a_message_in_an_ingest_gap(page, gap):
    shown = opened(page, gap["msg_id"])
    (doubt,) = [each for each in shown.doubts if "ingest gap" in each]
    assert f"offsets 4711 to 4811 of {gap['trace_topic']}, gone, queue 0" in doubt
    expect(page.get_by_role("heading", name="Doubtful")).to_be_in_viewport()


def test_a_sample_of_all_messages(page, record, calls):
    """As JSON, which is what the page renders: of each release, whatever happened to them."""
    messages = sorted(calls)
    for msg_id in random.Random(7).sample(messages, 25):
        found = page.request.get(f"{PAGES}/messages/demo/{msg_id}?format=json").json()
        shown = sorted(
            (lane["consumer_group"], attempt["retry_times"], attempt["outcome"])
            for lane in found["lanes"]
            for attempt in lane["attempts"]
        )
        assert shown == sorted(
            (c["consumer_group"], c["reconsume_times"], OUTCOMES[c["outcome"]]) for c in calls[msg_id]
        )


def test_each_step_and_attempt_links_to_its_record(page, record, calls):
    send = sends(record, "normal")[0]
    opened(page, send["msg_id"])
    links = page.locator("main table a").evaluate_all("links => links.map(each => each.href)")
    assert len(links) == 1 + 2 * len(calls[send["msg_id"]])
    page.goto(links[0])
    expect(page.locator("li:target")).to_contain_text(
        f"|{send['producer_group']}|{send['topic']}|{send['msg_id']}|"
    )
    targets = page.locator("li[id]").evaluate_all("items => items.map(each => each.id)")
    assert {link.partition("#")[2] for link in links} == set(targets)


def test_with_the_keyboard_alone(page, record):
    send = sends(record, "normal")[0]
    page.goto(f"{PAGES}/messages")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    form = page.get_by_role("form", name="Find by id or key")
    for label in ("Id", "Key"):
        page.keyboard.press("Tab")
        expect(form.get_by_label(label, exact=True)).to_be_focused()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.type(send["keys"])
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{page.url.partition(PAGES)[0]}{PAGES}/messages/demo/{send['msg_id']}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Message {send['msg_id']}")


def test_search_back_and_reload(page, record):
    page.goto(f"{PAGES}/messages")
    search = page.get_by_role("form", name="Search")
    search.get_by_label("Topic").fill(AUDIT)
    search.get_by_label("State").select_option("orphaned")
    search.get_by_role("button", name="Search").click()
    expected = {send["msg_id"] for send in record.sends if send["kind"] == "unconsumed"}
    links = page.locator("section[aria-labelledby=results] th a")
    expect(page.get_by_role("heading", name=f"{len(expected)} messages")).to_be_in_viewport()
    assert set(links.all_inner_texts()) == expected
    at_results = page.url
    for again in (page.reload, lambda: (links.first.click(), page.go_back())):
        again()
        assert page.url == at_results
        expect(search.get_by_label("Topic")).to_have_value(AUDIT)
        assert set(links.all_inner_texts()) == expected
    links.last.click()
    page.reload()
    assert read(page).states == ["orphaned"]


def test_an_alert_leads_to_its_orphans(page, record):
    page.goto(f"{PAGES}/alerts")
    row = (
        page.get_by_role("row")
        .filter(has_text=f"demo/{PAYMENTS}/{INVOICES.group}")
        .filter(has_text="orphan_rate")
    )
    row.get_by_role("link", name="messages").click()
    found = page.locator("section[aria-labelledby=results] th a").all_inner_texts()
    assert set(found) == {
        send["msg_id"] for send in record.sends if send["kind"] == "filtered" and send["traced"]
    }


def test_an_unknown_id(page):
    answer = page.goto(f"{PAGES}/messages/demo/0A000001126700C0FFEE0000000A0001")
    assert answer.status == 404
    expect(page.get_by_role("heading", name="The id is unknown")).to_be_visible()
    expect(page.locator("main")).to_contain_text("process 4711 on 10.0.0.1")
    expect(page.get_by_label("Id", exact=True)).to_have_value("0A000001126700C0FFEE0000000A0001")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_text(page, text):
    page.goto(f"{PAGES}/messages")
    page.get_by_label("Id", exact=True).fill(text)
    page.get_by_role("button", name="Find").click()
    shown = page.locator("main").inner_text()
    assert (
        "at most 800" in shown
        if len(text) > 800
        else f"The id is unknown\n{text}" in shown.replace("\n\n", "\n")
    )
    assert not is_too_wide(page)
    for address in (
        f"/messages/demo/{quote(text, safe='')}",
        f"/message?cluster=demo&msg_id={quote(text, safe='')}",
    ):
        assert page.goto(PAGES + address).status in (404, 200 if text == ".." else 404)


def test_copy_as_json(page, record):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(page, sends(record, "normal")[0]["msg_id"])
    expected = page.request.get(f"{page.url}?format=json").json()
    page.get_by_role("button", name="Copy as JSON").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == expected
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.reload()  # as over http from another machine
    page.get_by_role("button", name="Copy as JSON").click()
    assert json.loads(page.evaluate("getSelection().toString()")) == expected


def test_without_scripts_all_is_there(server, browser, session, record, calls):
    with browser.new_context(
        base_url=server.url, storage_state=session, java_script_enabled=False
    ) as context:
        page = context.new_page()
        send = sends(record, "normal")[0]
        page.goto(f"{PAGES}/messages/demo/{send['msg_id']}")
        expect(page.locator("section.lane tbody tr")).to_have_count(len(calls[send["msg_id"]]))
        expect(page.locator("button")).to_be_hidden()
        page.get_by_text("JSON as text").click()
        assert json.loads(page.get_by_label("the message as JSON").input_value())["msg_id"] == send["msg_id"]


def test_in_airflows_frame(page, record):
    """From Airflow's menu; a reload stays at the message."""
    send = sends(record, "normal")[0]
    page.goto("/plugin/trace-messages")
    frame = page.frame_locator("iframe")
    frame.get_by_label("Id", exact=True).fill(send["msg_id"])
    frame.get_by_role("button", name="Find").click()
    heading = frame.get_by_role("heading", level=1)
    expect(heading).to_have_text(f"Message {send['msg_id']}")
    page.wait_for_url(f"**/messages/demo/{send['msg_id']}")
    page.reload()
    expect(heading).to_have_text(f"Message {send['msg_id']}")


def test_what_a_screen_reader_finds(page, record):
    """Landmarks, one heading of level 1, named tables with headers; what is only drawn is not read."""
    opened(page, sends(record, "normal", topic=ORDERS)[0]["msg_id"])
    for role in ("main", "navigation", "contentinfo"):
        expect(page.get_by_role(role)).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    table = page.get_by_role("table", name=f"attempts of {MAIL.group}")
    expect(table.get_by_role("columnheader")).to_have_count(7)
    expect(table.get_by_role("rowheader")).to_have_count(1)
    assert page.get_by_role("figure").count() == 0
    page.goto(f"{PAGES}/messages")
    for name in ("Find by id or key", "Search"):
        expect(page.get_by_role("form", name=name)).to_have_count(1)
    unnamed = page.locator("input, select").evaluate_all(
        "fields => fields.filter(each => !each.labels.length).length"
    )
    assert unnamed == 0
