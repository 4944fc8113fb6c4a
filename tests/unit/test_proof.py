"""The last table of the demo reports equality only if all counts are equal."""

from __future__ import annotations

from rich.console import Console

from sandbox.proof import comparison


def shown(*pairs: tuple[str, int, str, int]) -> tuple[str, bool]:
    table, whole = comparison(list(pairs))
    console = Console(width=140)
    with console.capture() as capture:
        console.print(table)
    return capture.get(), whole


MESSAGES, RECORDS = (
    ("trace messages, by offsets", 10, "rows of raw"),
    ("records, by separators", 30, "rows of events"),
)


def test_equal_counts():
    text, whole = shown((*MESSAGES, 10), (*RECORDS, 30))
    assert whole
    assert text.splitlines()[0].strip() == "every message and record is in the warehouse"
    assert "DIFFERENT" not in text


def test_a_different_count_is_in_the_title():
    text, whole = shown((*MESSAGES, 10), (*RECORDS, 29))
    assert not whole
    assert text.splitlines()[0].strip() == "DIFFERENT: records"
    assert "every message" not in text
    both, whole = shown((*MESSAGES, 11), (*RECORDS, 29))
    assert not whole
    assert both.splitlines()[0].strip() == "DIFFERENT: trace messages and records"
