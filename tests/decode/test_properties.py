"""What holds for every body, with Hypothesis as the source of values; one example is some hundred bodies, one job."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from spark_jobs.trace.layouts import COLUMNS, FIELDS, LAYOUTS, Layout
from tests.decode import drawn
from tests.decode.compare import by_body, by_model, differing, smallest
from tests.decode.conftest import Decoded
from tests.decode.conservation import lost, value_of
from tests.decode.drawn import R, Values

A_LAYOUT = 12  # records of each layout in an example

# An example costs more than a second, so `smallest` makes a failure small, many tries a job, and not Hypothesis.
PROPERTY = settings(max_examples=6, deadline=None, database=None, phases=[Phase.explicit, Phase.generate])

WIRE_TEXT = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), max_size=20)
WIRE_COST = st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{1,12})?", fullmatch=True)
WIRE_WHOLE = st.integers(0, 2**63 - 1).map(str)


def some(strategy: st.SearchStrategy[Any], usual: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(strategy, min_size=1, max_size=15).map(lambda found: [*found, *usual])


values = st.builds(
    Values,
    texts=some(WIRE_TEXT, drawn.TEXTS),
    clocks=some(WIRE_WHOLE, drawn.CLOCKS),
    wholes=some(WIRE_WHOLE, drawn.WHOLES),
    costs=some(WIRE_COST, drawn.COSTS),
)
chances = st.integers(0, 2**32).map(random.Random)


def records(chance: random.Random, values: Values) -> list[tuple[Layout, dict[str, str]]]:
    """Records of all layouts in any order."""
    found = [(layout, values.of(layout, chance)) for layout in LAYOUTS for _ in range(A_LAYOUT)]
    chance.shuffle(found)
    return found


@PROPERTY
@given(chances, values)
def test_what_was_encoded_is_decoded(decoded: Decoded, chance: random.Random, values: Values):
    written = records(chance, values)
    bodies, expected = [], []
    while written:
        body, written = written[:9], written[9:]
        bodies.append(b"".join(drawn.record(*each) for each in body))
        expected.append([as_row(*each) for each in body])
    rows = by_body(decoded(bodies))
    for at, wanted in enumerate(expected):
        assert [{name: row[name] for name in wanted[0]} for row in rows[at]] == wanted


def as_row(layout: Layout, texts: dict[str, str]) -> dict[str, Any]:
    """The columns of a record; those that its layout lacks are NULL."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {"record_type": layout.record_type, "layout": layout.name}
    for name, text in texts.items():
        if column := FIELDS[name].column:
            row[column] = value_of(column, FIELDS[name].kind, text)
    return row


@PROPERTY
@given(chances, values, st.lists(st.binary(max_size=60), max_size=20))
def test_nothing_of_a_damaged_body_is_lost(
    decoded: Decoded, chance: random.Random, values: Values, anything: list[bytes]
):
    whole = [drawn.record(*each) for each in records(chance, values)]
    whole += [drawn.joined(chance, values) for _ in range(3 * A_LAYOUT)]
    bodies = [*anything, *chance.sample(whole, 50)]
    for _ in range(100):
        pieces = chance.choices(whole, k=chance.randint(1, 5))
        at = chance.randrange(len(pieces))
        pieces[at] = drawn.damaged_record(chance, pieces[at])
        bodies.append(b"".join(pieces))
    bodies += [drawn.damaged_body(chance, chance.choice(bodies), chance.choice(bodies)) for _ in range(100)]
    none_fails(bodies, lambda tried: spoiled(decoded, tried))


def spoiled(decoded: Decoded, bodies: list[bytes]) -> list[int]:
    """The bodies of which something is lost, or whose rows are not those of the model."""
    found = decoded(bodies)
    rows = by_body(found)
    missing = {at for at, body in enumerate(bodies) if lost(body, rows.get(at, []))}
    return sorted(missing | set(differing(found, by_model(bodies, found.schema))))


@PROPERTY
@given(chances, values, st.lists(st.binary(max_size=60), min_size=1, max_size=20))
def test_what_stands_between_records_changes_neither(
    decoded: Decoded, chance: random.Random, values: Values, anything: list[bytes]
):
    good = [drawn.record(*each) for each in records(chance, values)]
    junk = [*anything, *(drawn.damaged_record(chance, each) for each in good)]
    between = [
        (chance.choice(good), chance.choice(junk).replace(R, b""), chance.choice(good)) for _ in range(100)
    ]
    rows = by_body(decoded([*good, *(one + bad + R + other for one, bad, other in between)]))
    alone = {record: placeless(rows[at][0]) for at, record in enumerate(good)}
    for at, (one, bad, other) in enumerate(between, start=len(good)):
        neighbours = [placeless(rows[at][0]), placeless(rows[at][-1])]
        assert neighbours == [alone[one], alone[other]], one + bad + R + other


def placeless(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"queue_offset": None, "record_index": None}


def none_fails(bodies: list[bytes], failing: Callable[[list[bytes]], list[int]]) -> None:
    if failed := failing(bodies):
        raise AssertionError(f"{len(failed)} bodies, the smallest: {smallest(bodies, failing)!r}")
