"""The judge of a compressed week: what it takes for growth."""

from __future__ import annotations

import pytest

from tests.growth.run import growing


@pytest.mark.parametrize(
    ("values", "found"),
    [
        pytest.param([10, 60, 100, 100, 100, 100, 100], [], id="full after three days"),
        pytest.param([10, 60, 100, 104, 99, 110, 112], [], id="up and down"),
        pytest.param(
            [10, 60, 100, 120, 140, 160, 180],
            ["files: 110.0 after day 3, 170.0 in the end"],
            id="more each day",
        ),
        pytest.param([0, 0, 0, 0, 0, 0, 1], [], id="one more is no growth"),
        pytest.param([0, 0, 0, 0, 1, 2, 3], ["files: 0.0 after day 3, 2.5 in the end"], id="from nothing"),
        pytest.param([180, 160, 140, 120, 100, 80, 60], [], id="less each day"),
    ],
)
def test_what_grows_after_the_third_day_is_named(values, found):
    assert growing([{"files": value} for value in values]) == found


def test_what_appears_later_counts_from_nothing():
    assert growing([{}, {}, {}, {}, {"leaves": 5.0}, {"leaves": 6.0}, {"leaves": 7.0}]) == [
        "leaves: 0.0 after day 3, 6.5 in the end"
    ]
