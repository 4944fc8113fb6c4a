"""The pages of the look-up are for users with permission; what clients or visitors write is text, whatever it is."""

from __future__ import annotations

import base64
import hashlib
import re
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from plugins.message_pages import LONGEST
from spark_jobs.lookup.address import of_message
from tests.plugins.served import CLUSTER, HOSTILE, HOUR, MARKUP, PLAIN, escaped, policy_of

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


ADDRESSES = [
    "/messages",
    "/messages?id=x",
    f"/messages/{CLUSTER}/x",
    f"/messages/{CLUSTER}/x/records",
    "/message?cluster=c&msg_id=x",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_browser_is_sent_to_the_login_and_back(anybody, address):
    assert anybody.get(address).status_code == 401
    answer = anybody.get(address, headers=BROWSER, follow_redirects=False)
    assert answer.status_code == 303
    assert parse_qs(urlsplit(answer.headers["location"]).query) == {"next": [address]}


@pytest.mark.parametrize("address", ADDRESSES)
def test_they_need_the_permission_to_see_the_runs_of_the_marts(pages, address, monkeypatch):
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    asked = []

    def refuse(self, *, method, user, access_entity=None, details=None):
        asked.append((method, access_entity.value, details.id))
        return False

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", refuse)
    assert pages.get(f"{address}{'&' if '?' in address else '?'}dag_id=mine").status_code == 403
    assert asked == [("GET", "RUN", "trace_marts")]
    assert pages.get("/alerts").status_code == 200


def test_a_user_without_a_role_is_refused(anybody, home):
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="eve", role=None))
    anybody.cookies.set("_token", token)
    assert anybody.get("/messages", headers=BROWSER, follow_redirects=False).status_code == 403


@pytest.mark.parametrize(
    ("address", "form", "script"),
    [
        ("/messages", "'self'", False),
        (f"/messages/{CLUSTER}/{PLAIN}", "'none'", True),
        (f"/messages/{CLUSTER}/{PLAIN}/records", "'none'", False),
        (f"/messages/{CLUSTER}/unknown", "'self'", False),
    ],
)
def test_a_page_runs_and_loads_only_what_its_policy_names(pages, address, form, script):
    answer = pages.get(address)
    policy = policy_of(answer)
    assert policy["default-src"] == "'none'"
    assert policy["form-action"] == form
    assert policy["frame-ancestors"] == "'self'"
    assert answer.headers["cache-control"] == "no-store"
    for tag, source in (("style", "style-src"), ("script", "script-src")):
        found = re.findall(f"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)
        assert len(found) == (1 if tag == "style" or script else 0)
        hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in found]
        assert [policy[source]] == hashes if found else source not in policy
    assert not re.search(
        r" style=| on[a-z]+=|javascript:", re.sub("<script>.*?</script>", "", answer.text, flags=re.DOTALL)
    )


@pytest.mark.parametrize("msg_id", HOSTILE)
def test_an_id_may_be_any_text(pages, msg_id):
    found = pages.get(f"/messages?id={quote(msg_id, safe='')}", follow_redirects=False)
    assert found.status_code == 303
    for address in (found.headers["location"], f"/message?cluster={CLUSTER}&msg_id={quote(msg_id, safe='')}"):
        answer = pages.get(address)
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert pages.get(of_message(CLUSTER, msg_id) + "&format=json").json()["msg_id"] == msg_id
    for link in re.findall(r'href="(/message/records[^"]*)"', answer.text):
        raw = pages.get(link.replace("&amp;", "&"))
        assert (raw.status_code, "<li id=" in raw.text) == (200, True)


@pytest.mark.parametrize("msg_id", [MARKUP, "' or 1=1 --", "a b", "a/b", "\\", "é名😀"])
def test_a_path_may_have_any_id(pages, msg_id):
    answer = pages.get(f"/messages/{CLUSTER}/{quote(msg_id, safe='')}?format=json")
    assert (answer.status_code, answer.json()["msg_id"]) == (200 if msg_id in HOSTILE else 404, msg_id)


def test_names_are_text(pages):
    for address in (
        f"/messages/{CLUSTER}/marked",
        f"/messages/{CLUSTER}/marked/records",
        f"/messages?from={HOUR:%Y-%m-%dT%H:%M}&topic={quote(MARKUP)}",
    ):
        page = pages.get(address).text
        assert "<script>alert" not in page
        assert escaped(MARKUP) in page
    assert "\\u202eoloc" in pages.get(f"/message?cluster={CLUSTER}&msg_id=%E2%80%AEoloc").text


@pytest.mark.parametrize("text", [MARKUP, "' or 1=1 --", "\\", "x" * 10_000, "é" * 5_000, "\x00"])
def test_whatever_is_typed_is_answered(pages, text):
    quoted = quote(text, safe="")
    for name in ("id", "key", "topic", "group", "state", "cluster", "from", "to", "min_ms"):
        answer = pages.get(f"/messages?topic=t&{name}={quoted}", follow_redirects=False)
        assert answer.status_code in (200, 303, 400, 404), name
        assert "<script>alert" not in answer.text
    for address in (
        f"/message?cluster=c&msg_id={quoted}",
        f"/message?cluster={quoted}&msg_id=x",
        f"/message/records?cluster=c&msg_id={quoted}",
    ):
        assert pages.get(address).status_code == 404


def test_a_long_id_is_refused_with_the_limit(pages):
    for address in (
        f"/messages?id={'x' * 10_000}",
        f"/messages/{CLUSTER}/{'x' * 10_000}",
        f"/messages?topic={'x' * 10_000}",
    ):
        answer = pages.get(address)
        assert answer.status_code in (400, 404)
        assert f"at most {LONGEST}" in answer.text
