"""What a release's encoder writes comes out of our decoder as it went in."""

from __future__ import annotations

import pytest

from spark_jobs.trace.layouts import CONTEXT_CODES, FIELD_SEPARATOR, MSG_TYPES, RECORD_SEPARATOR
from tests.conformance.columns import MESSAGE_TYPES, RETURN_TYPES, Row, expected
from tests.conformance.releases import (
    ENDS_IN_AN_EMPTY_FIELD,
    GLUES,
    ORDER_IS_SECOND,
    RELEASES,
    SPLITS_KEYS,
    WRITES,
    message_types,
)


def unlike(found: list[Row], wanted: list[Row]) -> object:
    """What differs, by record and column, as (ours, what went in); nothing where all is equal."""
    if len(found) != len(wanted):
        return f"{len(found)} rows, not {len(wanted)}"
    pairs = [(n, name) for n, row in enumerate(wanted) for name in row if found[n][name] != row[name]]
    return {(n, name): (found[n][name], wanted[n][name]) for n, name in pairs}


@pytest.mark.parametrize("release", RELEASES)
def test_what_went_in_comes_out(conformance, release):
    answers = conformance.releases[release].bodies
    wrong = {}
    for name, contexts in conformance.contexts[release].items():
        wanted = [row for context in contexts for row in expected(release, context)]
        if different := unlike(conformance.rows[answers[name].body], wanted):
            wrong[name] = different
    assert not wrong, f"{len(wrong)} bodies, the first: {next(iter(wrong.items()))}"


@pytest.mark.parametrize("release", RELEASES)
def test_the_keys_of_the_trace_message(conformance, release):
    """They are the ids and keys of all beans, and so are our columns, as the test above shows."""
    for name, contexts in conformance.contexts[release].items():
        keys = set()
        for bean in (bean for context in contexts for bean in context.beans):
            text = bean.get("keys") or ""
            keys |= {bean["msgId"], *(text.rstrip(" ").split(" ") if release in SPLITS_KEYS else [text])}
        found = set(conformance.releases[release].bodies[name].keys)
        assert found - {""} == keys - {""}, name


@pytest.mark.parametrize("release", RELEASES)
def test_how_a_cloud_record_ends(conformance, release):
    """With a field's separator, and in some releases without a record's."""
    ends = {
        answer.body.rpartition(FIELD_SEPARATOR)[2]
        for name, answer in conformance.releases[release].bodies.items()
        if name.startswith("SubAfter CLOUD keys=")
    }
    assert ends == (
        {""} if release in GLUES else {RECORD_SEPARATOR} if release in ENDS_IN_AN_EMPTY_FIELD else set()
    )


@pytest.mark.parametrize("release", RELEASES)
def test_the_numbers_on_the_wire(conformance, release):
    enums = conformance.releases[release].enums
    assert enums["MessageType"] == list(message_types(release))
    if release not in ORDER_IS_SECOND:
        names = [MESSAGE_TYPES[name] for name in enums["MessageType"]]
        assert names == list(MSG_TYPES[: len(names)])
    assert [RETURN_TYPES[name] for name in enums["ConsumeReturnType"]] == list(CONTEXT_CODES)
    assert set(enums["TraceType"]) == {name for name in WRITES[release] if " " not in name}
