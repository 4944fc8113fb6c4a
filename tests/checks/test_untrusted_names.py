"""Names of topics, groups and clients are untrusted: in no sink are they markup, headers or line breaks."""

from __future__ import annotations

import json

import apprise
import pytest
import requests

from spark_jobs.alerts.notify import notify
from spark_jobs.alerts.sinks.apprise import LONGEST_TITLE
from spark_jobs.checks.check import Measured, judge
from spark_jobs.checks.registry import BY_NAME
from tests.checks.loopback import mailbox, receiver
from tests.checks.test_alerts import minute
from tests.checks.test_notify import settings

HOSTILE = "<b>x</b>\r\nBcc: all@example.com\r\n\r\n<img src=http://evil.example/a> @everyone <!channel> [a](http://b) \u202eexe"
LONG = "g" * 5000


def failed(*names: str):
    """Too many orphans for groups of these names, which a trace record may hold."""
    found = [Measured(f"c1/orders/{name}", 0.5, f"half of the messages to {name}") for name in names]
    return judge(BY_NAME["orphan_rate"], found, settings())


@pytest.mark.parametrize("option", ["", "&format=html"], ids=["text", "html"])
def test_names_are_literal_in_a_mail_and_cannot_add_headers(store, option):
    with mailbox() as (address, mails):
        url = f"mailto://{address}/?from=trace@example.com&to=oncall@example.com{option}"
        assert (
            notify(store, [failed(HOSTILE)], settings(apprise={"messaging": [url]}), minute(0)).undelivered
            == {}
        )
    (mail,) = mails
    assert mail["To"].addresses[0].addr_spec == "oncall@example.com"
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith(
        "[WARNING] prod/c1: not proven: 50 % of the messages of orders have no trace of"
    )
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert r"<b>x</b> Bcc: all@example.com <img src=http://evil.example/a> @everyone" in text.get_content()
    assert "\\u202eexe" in text.get_content()
    assert (html is not None) is bool(option)
    if html is not None:
        assert "<b>" not in html.get_content()
        assert "<img" not in html.get_content()
        assert "&lt;img" in html.get_content()


@pytest.fixture
def sent(monkeypatch):
    """What Apprise sends to the addresses of chat services, taken by a server on loopback."""
    with receiver() as hook:
        send = requests.Session.request

        def here(session, method, url, **options):
            return send(
                session,
                method,
                f"http://{hook.url}/chat",
                **{k: options[k] for k in ("data",) if k in options},
            )

        monkeypatch.setattr(requests.Session, "request", here)
        yield hook


CHATS = {
    "slack": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#general",
    "discord": "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
    "telegram": "tgram://123456789:abcdefg_hijklmnop/12315544/",
    "mattermost": "mmost://localhost/3ccdd113474722377935511fc85d3dd4",
    "google_chat": "gchat://workspace/key/token",
    "teams": "workflows://host/workflow/signature",
}


@pytest.mark.parametrize("chat", CHATS)
def test_names_are_no_mentions_links_or_markup_in_a_chat(store, sent, chat):
    notify(store, [failed(HOSTILE)], settings(apprise={"messaging": [CHATS[chat]]}), minute(0))
    body, *_ = sent.bodies("/chat")
    output = json.dumps(body, ensure_ascii=False)
    assert "a consumption by" in output
    for markup in ("@everyone", "<!channel>", "](http", "<b>x", "<img", "\u202e"):
        assert markup not in output


def test_the_length_of_a_message_is_bounded(store):
    with receiver() as hook:
        ours = settings(apprise={"messaging": [f"json://{hook.url}/chat"]})
        notify(store, [failed(LONG, *(f"{n}{LONG}" for n in range(30)))], ours, minute(0))
        (body,) = hook.bodies("/chat")
    assert len(body["title"]) < LONGEST_TITLE + 50
    assert len(body["message"]) < 30_000
    assert "and 30 more" in body["title"]


@pytest.mark.parametrize("chat", ["discord", "telegram"])
def test_a_text_longer_than_a_chat_accepts_comes_in_several_messages(store, sent, chat):
    names = [f"g{n}-{LONG[:200]}" for n in range(15)]
    notify(store, [failed(*names)], settings(apprise={"messaging": [CHATS[chat]]}), minute(0))
    texts = [json.dumps(body, ensure_ascii=False) for body in sent.bodies("/chat")]
    most = apprise.Apprise.instantiate(CHATS[chat]).body_maxlen
    assert len(texts) > 1
    assert all(len(text) < most + 1000 for text in texts), "with the fields of the request"
    assert all(any(f"g{n}-" in text for text in texts) for n in range(15))


def test_a_name_cannot_forge_a_log_line(store, caplog):
    notify(store, [failed("g\nalert: all is well")], settings(), minute(0))
    assert [line for line in caplog.text.splitlines() if line.startswith("alert: all")] == []
