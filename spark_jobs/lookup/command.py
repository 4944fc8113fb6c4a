"""`make message` and `make search`: the life of one message, or the messages that meet some conditions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime

import duckdb
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spark_jobs.checks.formatting import printable, visible
from spark_jobs.lookup.find import Found, Nothing, find_id, find_key
from spark_jobs.lookup.life import Attempt, Duration, Lane, Life, as_json
from spark_jobs.lookup.message import life
from spark_jobs.lookup.reader import Reader
from spark_jobs.lookup.records import RecordsOf, records
from spark_jobs.lookup.search import Conditions, Hits, SearchError, search
from spark_jobs.lookup.unknown import explain_unknown
from spark_jobs.serving.contents import ServingFileError
from spark_jobs.settings import load_settings

_console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
_SHOWN = 5  # siblings


def main(argv: Sequence[str] | None = None) -> int:
    """Print what was found.

    Returns:
        0, also if nothing was found; 1 without a serving file that can be read; 2 for conditions that cannot be used.
    """
    args = _parser().parse_args(argv)
    try:
        with Reader.open(load_settings()) as reader:
            return _search(reader, args) if args.command == "search" else _message(reader, args)
    except ServingFileError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    except duckdb.Error as error:
        why = printable(str(error).partition("\n")[0])
        print(f"failed: {why}; run it again: a publication may just have replaced the file", file=sys.stderr)
        return 1
    except SearchError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    message = commands.add_parser("message", help="the life of a message")
    what = message.add_mutually_exclusive_group(required=True)
    what.add_argument("--id", help="message id of the client, id of the broker, or transaction id")
    what.add_argument("--key", help="one of the message's keys")
    message.add_argument("--records", action="store_true", help="print its raw records")
    found = commands.add_parser("search", help="the newest messages that meet all conditions")
    for name, text in (
        ("topic", "sent to this topic"),
        ("group", "attempted by this consumer group, or expected by it"),
        ("key", "one of its keys"),
        ("state", "state in fct_messages"),
        (
            "start",
            "published since, UTC (default: 24 hours before the end; with a key: since its first record)",
        ),
        ("end", "published before, UTC (default: an hour after the newest watermark)"),
        ("min-ms", "at least this long from the publication to the success in a group"),
    ):
        found.add_argument(f"--{name}", default="", help=text)
    for each in (message, found):
        each.add_argument("--cluster", help="only this cluster")
        each.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    return parser


def _message(reader: Reader, args: argparse.Namespace) -> int:
    text = (args.id if args.id is not None else args.key).strip()
    found = (find_id if args.id is not None else find_key)(reader, text, args.cluster)
    if not found.matches:
        return _nothing(reader, text, args)
    if found.total > 1:
        print(as_json(found)) if args.format == "json" else _print_matches(found)
        return 0
    (match,) = found.matches
    if args.records:
        found_records = RecordsOf(
            match.cluster, match.msg_id, tuple(records(reader, match.cluster, match.msg_id))
        )
        print(as_json(found_records)) if args.format == "json" else _print_records(found_records)
        return 0
    shown = life(reader, match.cluster, match.msg_id)
    if shown is None:
        return _nothing(reader, text, args)
    print(as_json(shown)) if args.format == "json" else _print_life(shown)
    return 0


def _nothing(reader: Reader, text: str, args: argparse.Namespace) -> int:
    nothing = Nothing(text, tuple(explain_unknown(reader, text, args.cluster)))
    print(as_json(nothing)) if args.format == "json" else _print_nothing(nothing)
    return 0


def _search(reader: Reader, args: argparse.Namespace) -> int:
    conditions = Conditions.parse(
        args.cluster or "",
        args.topic,
        args.group,
        args.state,
        args.start,
        args.end,
        args.min_ms,
        args.key.strip(),
    )
    hits = search(reader, conditions)
    print(as_json(hits)) if args.format == "json" else _print_hits(hits)
    return 0


def _print_nothing(nothing: Nothing) -> None:
    _console.print(f"[bold]no record has[/] {_whole(nothing.unknown)}", soft_wrap=True)
    for sentence in nothing.explanation:
        _console.print(_safe(sentence), soft_wrap=True)


def _print_matches(found: Found) -> None:
    how = "ID=… CLUSTER=…" if len({match.cluster for match in found.matches}) > 1 else "ID=…"
    _console.print(f"[bold]{_of(len(found.matches), found.total)}[/]; choose one with {how}")
    rows = [(_time(m.at), m.cluster, m.topic or "-", m.msg_id) for m in found.matches]
    _print_table(("newest (UTC)", "cluster", "topic", "message id"), rows)


def _print_hits(hits: Hits) -> None:
    _console.print(
        f"[bold]{_of(len(hits.rows), hits.total)}[/], published from {_time(hits.start)} to {_time(hits.end)} UTC"
    )
    rows = [
        (
            _time(h.at),
            h.cluster,
            h.topic or "-",
            h.state,
            str(h.consumer_groups),
            _ms(h.end_to_end_ms),
            h.msg_id,
        )
        for h in hits.rows
    ]
    _print_table(("published (UTC)", "cluster", "topic", "state", "groups", "end to end", "message id"), rows)


def _print_records(found: RecordsOf) -> None:
    if not found.records:
        _console.print(
            f"{_whole(found.msg_id)}: events no longer has its records (retention)", soft_wrap=True
        )
    for each in found.records:
        position = f"{each.trace_topic}, {each.broker}, queue {each.queue_id}, offset {each.queue_offset}"
        _console.print(
            f"[bold]{each.record_type}[/] {_safe(position)}, record {each.record_index}, stored {_time(each.store_time)} UTC"
        )
        _console.print(
            f"  {_whole(each.text) if each.text is not None else 'its trace message is not in raw any more'}",
            soft_wrap=True,
        )


def _print_life(shown: Life) -> None:
    _console.print(f"[bold]{_whole(shown.msg_id)}[/] in cluster {_safe(shown.cluster)}")
    for message in shown.messages:
        topic = f"topic {_safe(message.topic)}" if message.topic else "topic unknown"
        _console.print(f"  {topic}: [bold]{message.state}[/] ({message.meaning})", soft_wrap=True)
    for name, value in (
        ("keys", " ".join(shown.keys)),
        ("tags", shown.tags),
        ("broker's id", ", ".join(shown.offset_msg_ids)),
        ("trace", shown.trace_url),
    ):
        if value:
            _console.print(f"  {name}: {_whole(value)}", soft_wrap=True)
    for doubt in shown.doubts:
        _console.print(f"  [bold yellow]doubtful[/] {_safe(doubt.text)}", soft_wrap=True)
    rows = [(_time(s.at), s.text, _duration(s.duration), s.client or "-") for s in shown.steps]
    if rows:
        _print_table(("time (UTC)", "producer and broker", "took", "client"), rows)
    _print_cut(len(shown.steps), shown.steps_total)
    for lane in shown.lanes:
        _print_lane(lane)
    for absent in shown.absent:
        group = f"group {_safe(absent.consumer_group)}" if absent.consumer_group else "no group"
        _console.print(f"  {group}: [bold]{absent.cause}[/]: {absent.meaning}", soft_wrap=True)
    if shown.siblings:
        more = f" and {shown.siblings_total - _SHOWN:,} more" if shown.siblings_total > _SHOWN else ""
        _console.print(
            f"  in a batch with {_whole(', '.join(shown.siblings[:_SHOWN]))}{more}", soft_wrap=True
        )
    complete = (
        f"traces complete up to {_time(shown.watermark)} UTC" if shown.watermark else "watermark unknown"
    )
    _console.print(
        f"[dim]publication {_safe(shown.publication_id)}, {complete}; read {shown.files_read} of {shown.files_total} files[/]",
        soft_wrap=True,
    )


def _print_lane(lane: Lane) -> None:
    name = f"group {lane.consumer_group}" if lane.consumer_group else "no group named"
    client = f", client {lane.client} (broadcast)" if lane.client else ""
    end_to_end = f"; end to end {_duration(lane.end_to_end)}" if lane.end_to_end else ""
    title = (
        f"{_safe(name + client)}: [bold]{lane.outcome or 'unknown'}[/] ({lane.meaning}){_safe(end_to_end)}"
    )
    _console.print(f"  {title}", soft_wrap=True)
    rows = [_attempt(attempt) for attempt in lane.attempts]
    _print_table(("begun (UTC)", "retry", "waited", "outcome", "took", "client"), rows)
    _print_cut(len(lane.attempts), lane.attempts_total)


def _print_cut(shown: int, total: int) -> None:
    if shown < total:
        _console.print(f"  the first {shown:,} of {total:,}")


def _attempt(attempt: Attempt) -> tuple[str, ...]:
    retry = "-" if attempt.retry_times is None else str(attempt.retry_times)
    wait, took = _duration(attempt.wait), _duration(attempt.duration)
    return _time(attempt.begun_at), retry, wait, attempt.outcome, took, attempt.client or "-"


def _print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        cells = zip(headings, row, strict=True)
        table.add_row(*(_whole(cell) if heading == "message id" else _safe(cell) for heading, cell in cells))
    _console.print(table)


def _of(shown: int, total: int) -> str:
    return f"first {shown:,} of {total:,} messages" if shown < total else f"{total:,} messages"


def _duration(duration: Duration | None) -> str:
    """A duration and, in brackets, the usual one."""
    if duration is None:
        return "-"
    usual = duration.usual
    return _ms(duration.ms) + (f" (p50 {_ms(usual.p50_ms)}, p99 {_ms(usual.p99_ms)})" if usual else "")


def _ms(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:,.0f} ms"


def _time(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03}" if time else "-"


def _safe(text: str) -> str:
    """Untrusted text without control characters and without rich's markup."""
    return escape(printable(text))


def _whole(text: str) -> str:
    """The same for a record, an id or a key: all of it, with its spaces."""
    return escape(visible(text))


if __name__ == "__main__":
    sys.exit(main())
