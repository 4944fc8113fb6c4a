"""On well-formed bodies our decoder says what the release's own says, except the differences that are explained."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.conformance.differences import BODY, KNOWN, Difference, Known, differences
from tests.conformance.releases import RELEASES


@pytest.fixture(scope="module")
def found(conformance) -> dict[str, list[tuple[Difference, list[Known]]]]:
    """By release all differences, each with the rows of the table that explain it."""
    by_release = {}
    for name, release in conformance.releases.items():
        by_release[name] = [
            (difference, [known for known in KNOWN if known.explains(difference)])
            for answer in release.bodies.values()
            for difference in differences(name, release.fresh, answer, conformance.rows[answer.body])
        ]
    return by_release


@pytest.mark.parametrize("release", RELEASES)
def test_each_difference_has_one_explanation(found, release):
    wrong = [(d, [known.name for known in rows]) for d, rows in found[release] if len(rows) != 1]
    assert not wrong, f"{len(wrong)} differences, the first: {wrong[0]}"


@pytest.mark.parametrize("release", RELEASES)
def test_each_explanation_occurs(found, release):
    names = {known.name for _, rows in found[release] for known in rows}
    assert names == {known.name for known in KNOWN if release in known.releases}


def test_each_explanation_says_where_it_occurs(found):
    columns, record_types = defaultdict(set), defaultdict(set)
    for difference, rows in (each for release in found.values() for each in release):
        for known in rows:
            columns[known.name].add(difference.column)
            record_types[known.name] |= difference.record_types & set(known.record_types)
    assert columns == {known.name: set(known.columns) for known in KNOWN}
    assert record_types == {known.name: set(known.record_types) for known in KNOWN}


@pytest.mark.parametrize("release", RELEASES)
def test_what_they_decode_we_decode(conformance, release):
    """No body of which their decoder gives a record is Invalid in ours."""
    for name, answer in conformance.releases[release].bodies.items():
        rows = conformance.rows[answer.body]
        assert len(rows) >= len(answer.records), name
        assert all(row["record_type"] != "Invalid" for row in rows), name


def test_names_are_unique():
    assert len({known.name for known in KNOWN}) == len(KNOWN)
    assert all(BODY not in known.columns or known.columns == (BODY,) for known in KNOWN)
