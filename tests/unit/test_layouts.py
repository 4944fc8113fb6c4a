"""Each layout is found by what it looks like."""

from __future__ import annotations

import pytest

from spark_jobs.trace.layouts import BY_NAME, LAYOUTS, candidate

TYPE_FIRST = [layout for layout in LAYOUTS if not layout.type_last]


@pytest.mark.parametrize("layout", TYPE_FIRST, ids=lambda layout: layout.name)
def test_a_layout_is_a_candidate_of_its_own_count(layout):
    found = candidate(layout.record_type, layout.count, last_empty=False)
    # The two Pubs of 15 fields are distinguished by the kind of a field, in decode.
    expected = BY_NAME["pub_15"] if layout.name == "pub_15_rmqsdk" else layout
    assert found == expected


@pytest.mark.parametrize(
    ("record_type", "count", "layout"),
    [
        ("SubAfter", 8, "sub_after_7"),  # Java 5.3.1 and later with access channel CLOUD
        ("SubBefore", 8, "sub_before_8"),  # empty keys are a value
        ("SubAfter", 6, "sub_after_6"),
        ("Pub", 15, "pub_14"),
        ("Recall", 8, "recall_7"),
    ],
)
def test_an_empty_last_field_is_a_value_of_a_text_field_only(record_type, count, layout):
    assert candidate(record_type, count, last_empty=True) == BY_NAME[layout]


def test_no_layout_has_the_count():
    assert candidate("Pub", 11, last_empty=False) is None
    assert candidate("Recall", 7, last_empty=True) is None
