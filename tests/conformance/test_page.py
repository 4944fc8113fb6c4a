"""The page says what the tables say."""

from __future__ import annotations

from docs.conformance import PAGE, render


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == render(), "run `make conformance`"
