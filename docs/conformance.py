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

Apache RocketMQ has no specification of the trace format. The `TraceDataEncoder` of the Java client is the closest to one, and
it changed several times. So `tests/conformance` loads this class from the `rocketmq-client` of each release below, each in its
own JVM, and compares:

1. **Values.** The release encodes trace contexts of all its record types: null, empty, single, several and non-ASCII keys and
   tags, every message type, context code and transaction state, the largest numbers, batches, both access channels, and up to
   100 records in one body. Our decoder must return the same values column by column, NULL for fields that the layout does not
   have, and the name of the layout. Java writes null as the text `null`.
2. **Keys.** The keys that the release gives to the trace message are the message ids and the keys of its records.
3. **The release's own decoder.** `decoderFromTraceDataString` decodes the same bodies, and one record of each layout that other
   clients write. Where its result differs from ours, the difference must be in the table below. A row of the table that does not
   occur in each of its releases, record types and columns fails, too.

`make conformance` generates this page from the tables in `tests/conformance`; a test fails if it is out of date.
"""
LAYOUTS = """## What each release writes

The names are those of `spark_jobs/trace/layouts.py`; the number in a name is the number of fields. A SubAfter with access
channel CLOUD has its own layout in the releases with an entry in that column. In the other releases the channel makes no
difference. A CLOUD record ends with a field separator: in {glues} without a record separator, so that the next record is glued
to it; in {ends} with one, so that the last field is empty.
"""
MESSAGE_TYPES = """## Message types: wrong for {otherwise}

The wire has the number of the client's `MessageType`: 0 normal, 1 half, 2 commit, 3 delay, and from 5.1.1 on 4 order. In
{otherwise} the numbers are different: 0 normal, 1 order, 2 half, 3 commit, 4 delay. Nothing on the wire identifies the release.
`msg_type` uses the numbers of the other releases, so for these two it is only correct if it is `normal`.
"""
DIFFERENCES = """## Where the release's own decoder differs

A release's decoder starts each record with a new `TraceContext` and `TraceBean`. Fields that the wire does not have keep the
initial value. Where the column is *{body}*, the decoder throws, or skips records.
"""


def listed(releases: Sequence[str]) -> str:
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
    head = LAYOUTS.format(glues=listed(GLUES), ends=listed(ENDS_IN_AN_EMPTY_FIELD))
    return "\n".join([head, _table(["release", *types], *rows)])


def _differences() -> str:
    head = ["difference", "releases", "records", "columns", "theirs", "ours", "why"]
    rows = [
        [
            known.name,
            listed(known.releases),
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
