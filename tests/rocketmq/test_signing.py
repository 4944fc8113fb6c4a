"""Signatures, and that secrets stay where they are."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from spark_jobs.rocketmq.acl import Credentials, sign


def test_values_are_signed_in_the_order_of_their_names_and_the_body_last():
    signed = sign(Credentials("ak", "sk", "st"), {"topic": "T", "a": "1", "Z": "2"}, b"body")
    content = b"ak" + b"st" + b"2" + b"1" + b"T" + b"body"  # AccessKey, SecurityToken, Z, a, topic
    digest = hmac.new(b"sk", content, hashlib.sha1).digest()
    assert signed["Signature"] == base64.b64encode(digest).decode()
    assert (signed["AccessKey"], signed["SecurityToken"], signed["topic"]) == ("ak", "st", "T")


def test_secrets_do_not_show():
    assert "hidden" not in repr(Credentials("ak", "hidden", "hidden"))


def test_credentials_come_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("X_ACCESS_KEY", "ak")
    with pytest.raises(ValueError, match="X_SECRET_KEY"):
        Credentials.from_env("X")
    monkeypatch.setenv("X_SECRET_KEY", "sk")
    assert Credentials.from_env("X") == Credentials("ak", "sk")
