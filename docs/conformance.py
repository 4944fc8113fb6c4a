"""Write docs/conformance.md from the tables of tests/conformance; `make conformance` calls it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from spark_jobs.settings import PROJECT
from tests.conformance.differences import BODY, KNOWN
from tests.conformance.releases import (
    ENDS_IN_AN_EMPTY_FIELD,
    GLUES,
    ORDER_IS_SECOND,
    RELEASES,
    WRITES,
)

PAGE = PROJECT / "docs" / "conformance.md"
HEAD = """# Conformance with the Java releases

Apache RocketMQ has no specification of the trace format; the Java client's `TraceDataEncoder` is the nearest to
one, and it changed several times. So `tests/conformance` loads this class from the `rocketmq-client` of each
release below, each in a JVM of its own, and compares:

1. **Values.** The release encodes trace contexts of every record type that it has: null, empty, single, several
   and non-ASCII keys and tags, every message type, context code and transaction state, the greatest numbers,
   batches, both access channels, and up to a hundred records in one body. Our decoder must give back, column
   by column, what went in; NULL for what the layout does not carry; and the layout. Java writes null as the text `null`.
2. **Keys.** The keys that the release gives the trace message are the message ids and the keys of its records.
3. **The release's own decoder.** `decoderFromTraceDataString` gets the same bodies, and one record of each
   layout that other clients write. Where it says something else than ours, the difference must be one of the table below.
   A row of the table that does not occur in each of its releases, record types and columns fails as well.

This page is made by `make conformance` from the tables in `tests/conformance`; a test fails when it is out of date.
"""
LAYOUTS = """## What each release writes

The names are those of `spark_jobs/trace/layouts.py`; their numbers count the fields. A SubAfter with access channel CLOUD has
a layout of its own where it has an entry here; elsewhere the channel makes no difference. It ends in a separator of
fields: in {glues} without a separator of records, so that the next record is glued on; in {ends} with one, so that an
empty field comes last.
"""
MESSAGE_TYPES = """## Message types: wrong for {otherwise}

The wire has the number of the client's `MessageType`: 0 normal, 1 half, 2 commit, 3 delay, and from 5.1.1 on 4 order.
{otherwise} count otherwise: 0 normal, 1 order, 2 half, 3 commit, 4 delay. Nothing on the wire says which release
wrote it. `msg_type` goes by the numbers of all other releases, so of these two it is right only where it is `normal`.
"""
DIFFERENCES = """## Where the release's own decoder differs

A release's decoder starts each record with a new `TraceContext` and `TraceBean`; what the wire has not keeps the
value that these start with. Where the column is *{body}*, it throws, or passes over records.
"""


def told(releases: Sequence[str]) -> str:
    """Releases in a row as the first and last of them."""
    numbered = [(RELEASES.index(release) - n, release) for n, release in enumerate(releases)]
    runs = [[release for _, release in run] for _, run in groupby(numbered, key=lambda each: each[0])]
    return "all" if len(releases) == len(RELEASES) else ", ".join("–".join(_ends(run)) for run in runs)


def _ends(run: list[str]) -> list[str]:
    return run if len(run) < 3 else [run[0], run[-1]]


def _table(*rows: Sequence[str]) -> str:
    lines = [f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]]) + "\n"


def _layouts() -> str:
    types = ("Pub", "SubBefore", "SubAfter", "SubAfter CLOUD", "EndTransaction", "Recall")
    assert set(types) == {name for written in WRITES.values() for name in written}
    rows = [
        [release, *[f"`{each[name]}`" if name in each else "" for name in types]]
        for release, each in WRITES.items()
    ]
    head = LAYOUTS.format(glues=told(GLUES), ends=told(ENDS_IN_AN_EMPTY_FIELD))
    return "\n".join([head, _table(["release", *types], *rows)])


def _differences() -> str:
    head = ["difference", "releases", "records", "columns", "theirs", "ours", "why"]
    rows = [
        [
            known.name,
            told(known.releases),
            ", ".join(known.record_types),
            ", ".join(column if column == BODY else f"`{column}`" for column in known.columns),
            *(known.theirs, known.ours, known.why),
        ]
        for known in KNOWN
    ]
    return "\n".join([DIFFERENCES.format(body=BODY), _table(head, *rows)])


def render() -> str:
    """The whole page."""
    return "\n".join(
        [HEAD, _layouts(), MESSAGE_TYPES.format(otherwise=" and ".join(ORDER_IS_SECOND)), _differences()]
    )


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"wrote {PAGE.relative_to(PROJECT)}")
