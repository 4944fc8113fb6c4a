"""The messages that one collection looks up at the brokers, from the published marts; read without Spark.

A suspect is a message of an expected group that `orphaned_messages` calls an orphan or that it judges soon, or one whose
delivery `fct_deliveries` calls exhausted, or judges soon. Then come those in the backlog of a group whose offset was set; then
those of clients that seem to write no trace, and those of batches, which clients do not trace: only the broker knows whether they
consumed them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import And, BooleanExpression, EqualTo, In, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.expressions.parser import parse
from pyiceberg.table import Table

_ORPHANS, _DELIVERIES, _SENDS = "marts.orphaned_messages", "marts.fct_deliveries", "marts.fct_sends"
_COLUMNS = ("topic", "msg_id", "expected_group", "tags", "published_at", "hour", "store_host")
# Older releases have these columns, too.
_OF_DELIVERIES = ("topic", "msg_id", "consumer_group", "published_at")
# The marts are built about every 5 minutes; what is due until after the next build is looked up before it.
_SOON = timedelta(minutes=10)
_UNTRACED = ("untraced_consumer", "untraced_batch")
_FIRST_HOURS = 2
_CANDIDATES_PER_MESSAGE = 10  # read until there are so many times the messages that are looked up
_MOST_ROWS = 20_000  # of one read


@dataclass(frozen=True)
class Suspect:
    """A message of one group; `group` is None if no group was expected. `hour` is that of the publication. Times are UTC."""

    topic: str
    msg_id: str
    group: str | None
    tags: str | None
    published_at: datetime
    hour: datetime
    store_host: str | None


def read_suspects(
    catalog: Catalog,
    cluster: str,
    now: datetime,
    hours: int,
    most: int,
    is_left_out: Callable[[str, str, str | None], bool],
    moved: Collection[str] = (),
) -> list[Suspect]:
    """The suspects to look up: orphans first, newest first, spread over topic, group and tag.

    Args:
        catalog: of the lake.
        cluster: the cluster's name.
        now: UTC.
        hours: how far back messages are looked up.
        most: the greatest number of suspects.
        is_left_out: whether a topic, message id and group are not looked up now.
        moved: groups whose offset was set in a queue, maybe over messages that other queues keep in the backlog.
    """
    try:
        orphans, deliveries = catalog.load_table(_ORPHANS), catalog.load_table(_DELIVERIES)
    except NoSuchTableError:  # nothing was published yet
        return []
    soon = f"next_review_at <= '{(now + _SOON).isoformat()}'"
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    oldest = this_hour - timedelta(hours=hours)

    def unconsumed(in_hours: str, which: str) -> list[Suspect]:
        return _suspects(_rows(orphans, f"{in_hours} and {which}", _COLUMNS))

    def judged(in_hours: str) -> list[Suspect]:
        failed = f"(outcome = 'exhausted' or (outcome = 'retrying' and {soon}))"
        of_group = f"is_broadcast = false and published_at >= '{oldest.isoformat()}'"
        return [
            *unconsumed(in_hours, f"(is_orphan = true or (cause = 'within_grace' and {soon}))"),
            *_failed(_rows(deliveries, f"{in_hours} and {of_group} and {failed}", _OF_DELIVERIES)),
        ]

    found: list[Suspect] = []

    def backlog_of_moved(in_hours: str) -> list[Suspect]:
        of_groups = In(term=Reference("expected_group"), values={literal(group) for group in moved})
        return _suspects(
            _rows(orphans, And(parse(f"{in_hours} and cause = 'in_backlog'"), of_groups), _COLUMNS)
        )

    reads: list[Callable[[str], list[Suspect]]] = [judged]
    reads += [backlog_of_moved] if moved else []
    reads += [partial(unconsumed, which=f"cause = '{cause}'") for cause in _UNTRACED]
    for read in reads:
        left, candidates = most - len(found), list[Suspect]()
        for begin, end in _periods(now, hours):
            if len(candidates) >= left * _CANDIDATES_PER_MESSAGE:
                break
            in_hours = (
                f"cluster = '{cluster}' and hour >= '{begin.isoformat()}' and hour < '{end.isoformat()}'"
            )
            candidates += [
                each for each in read(in_hours) if not is_left_out(each.topic, each.msg_id, each.group)
            ]
        found += spread(candidates, left)
    return found


def _periods(now: datetime, hours: int) -> Iterator[tuple[datetime, datetime]]:
    """So many hours back, the newest period first, each twice as long as the one before.

    The first ends an hour from now: its messages are judged soon. It may be ahead where a client's clock is.
    """
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    end, read, step = now + timedelta(hours=1), 0, _FIRST_HOURS
    while read < hours:
        step = min(step, hours - read)
        begin = this_hour - timedelta(hours=read + step)
        yield begin, end
        end, read, step = begin, read + step, step * 2


def _rows(mart: Table, condition: str | BooleanExpression, columns: tuple[str, ...]) -> pa.Table:
    return mart.scan(condition, selected_fields=columns, limit=_MOST_ROWS).to_arrow()


def _suspects(rows: pa.Table) -> list[Suspect]:
    return [Suspect(*(row[name] for name in _COLUMNS)) for row in rows.to_pylist() if row["topic"]]


def _failed(rows: pa.Table) -> list[Suspect]:
    """Deliveries have neither tags nor the broker, and the hour of their first attempt."""
    return [
        Suspect(
            row["topic"],
            row["msg_id"],
            row["consumer_group"],
            None,
            row["published_at"],
            row["published_at"].replace(minute=0, second=0, microsecond=0),
            None,
        )
        for row in rows.to_pylist()
        if row["topic"]
    ]


def spread(suspects: Iterable[Suspect], most: int) -> list[Suspect]:
    """At most so many suspects: one of each topic, group and tag in turn, each time its newest one that is left."""
    newest_first = sorted(suspects, key=lambda each: (each.published_at, each.msg_id), reverse=True)
    kinds: dict[Any, deque[Suspect]] = defaultdict(deque)
    for each in newest_first:
        kinds[each.topic, each.group, each.tags].append(each)
    chosen: list[Suspect] = []
    turn = deque(kinds.values())
    while turn and len(chosen) < most:
        of_kind = turn.popleft()
        chosen.append(of_kind.popleft())
        if of_kind:
            turn.append(of_kind)
    return chosen


def read_offset_ids(
    catalog: Catalog, cluster: str, suspects: Iterable[Suspect]
) -> dict[tuple[str, str], str]:
    """(topic, message id) to the broker's id of the first send; without messages whose client wrote none.

    Only the hours of the suspects are read.
    """
    wanted = list(suspects)
    if not wanted:
        return {}
    rows = catalog.load_table(_SENDS).scan(
        And(
            EqualTo(term=Reference("cluster"), value=literal(cluster)),
            In(term=Reference("hour"), values={literal(each.hour.isoformat()) for each in wanted}),
            In(term=Reference("msg_id"), values={literal(each.msg_id) for each in wanted}),
        ),
        selected_fields=("topic", "msg_id", "sent_at", "offset_msg_id"),
    )
    of_sends = rows.to_arrow().to_pylist()
    last_first = sorted(of_sends, key=lambda row: (row["sent_at"] is not None, row["sent_at"]), reverse=True)
    return {(row["topic"], row["msg_id"]): row["offset_msg_id"] for row in last_first if row["offset_msg_id"]}
