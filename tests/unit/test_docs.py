"""The documentation says what is true now."""

from __future__ import annotations

from docs.data_dictionary import PAGE, render


def test_the_data_dictionary_is_up_to_date():
    assert PAGE.read_text() == render(), "run `make dictionary`"
