"""Look-ups of random messages, by id and by key, in lakes of different size: warm, in turn.

The facts of the large lake are read in place. Those of the small one are few enough to be copied into the serving file,
which takes less time whatever their number is, so the lakes are compared with both read in place. The small lake as it is
by default is looked up too, without a ratio.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.lookup.ids import HOT_KEY
from spark_jobs.lookup.find import find_id, find_key
from spark_jobs.lookup.life import Life
from spark_jobs.lookup.message import life
from spark_jobs.lookup.reader import Reader
from spark_jobs.serving.build import build
from spark_jobs.settings import Serving, Settings

ROUNDS, WARM_UP = 5, 1
OF_A_ROUND = 60  # look-ups, half of them by id
MANY, FEW, FEW_COPIED = "20 M records", "2 M records", "2 M records, facts copied"


@dataclass
class Lane:
    """The look-ups in a lake.

    Attributes:
        reader: its serving file.
        todo: (message id, key) of random messages of the whole period.
        seconds: of the look-ups by id and by key.
        files: data files that each has opened.
    """

    reader: Reader
    todo: list[tuple[str, str]]
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"id": [], "key": []})
    files: list[int] = field(default_factory=list)

    def round(self, counts: bool) -> None:
        """Look up the next messages."""
        for number in range(OF_A_ROUND):
            msg_id, key = self.todo.pop()
            how = "key" if number % 2 else "id"
            self.reader.paths_read.clear()
            begin = time.perf_counter()
            found = look_up(self.reader, key if how == "key" else msg_id, how)
            seconds = time.perf_counter() - begin
            assert found.msg_id == msg_id
            assert found.steps, found
            if counts:
                self.seconds[how].append(seconds)
                self.files.append(self.reader.files_read)

    @property
    def ms(self) -> list[float]:
        """Milliseconds of all look-ups."""
        return [each * 1000 for how in self.seconds.values() for each in how]


def race(lakes: dict[int, Settings], console: Console) -> dict[str, Lane]:
    """The look-ups in `MANY`, `FEW`, and `FEW_COPIED`."""
    many, few = max(lakes), min(lakes)
    in_place = {"serving": Serving(copied_rows=0)}
    opened = {
        FEW_COPIED: lakes[few],
        FEW: lakes[few].model_copy(update=in_place),
        MANY: lakes[many].model_copy(update=in_place),
    }
    with ExitStack() as stack:
        lanes = {}
        for name, settings in opened.items():
            build(settings, from_scratch=True)
            # A connection keeps its file, though the next build of the same lake removes it.
            reader = stack.enter_context(Reader.open(settings))
            lanes[name] = Lane(reader, _random_messages(reader))
        for turn in range(-WARM_UP, ROUNDS):
            for name in list(lanes)[:: 1 if turn % 2 else -1]:
                lanes[name].round(counts=turn >= 0)
        _show(lanes, console)
        for name, lane in lanes.items():
            begin = time.perf_counter()
            total = find_key(lane.reader, HOT_KEY).total
            console.print(
                f"{name}: the key of {total:,} messages lists the newest after {time.perf_counter() - begin:.1f} s"
            )
    return lanes


def look_up(reader: Reader, text: str, how: str) -> Life:
    """The life of the one message with this id or key, as `make message` reads it."""
    (match,) = (find_key if how == "key" else find_id)(reader, text).matches
    found = life(reader, match.cluster, match.msg_id)
    assert found
    return found


def p95(milliseconds: list[float]) -> float:
    return statistics.quantiles(milliseconds, n=20)[-1]


def _random_messages(reader: Reader) -> list[tuple[str, str]]:
    count = (WARM_UP + ROUNDS) * OF_A_ROUND
    rows = reader.query(
        "select msg_id, split_part(keys, ' ', 1) as key from "
        f"(select msg_id, keys from marts.fct_sends using sample reservoir({count} rows) repeatable (7))"
    )
    assert len(rows) == count
    return [(row["msg_id"], row["key"]) for row in rows]


def _show(lanes: dict[str, Lane], console: Console) -> None:
    table = Table(title="the life of a random message", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("lake")
    for heading in (
        "look-ups",
        "p50 ms",
        "p95 ms",
        "max ms",
        "by id, p50",
        "by key, p50",
        "files opened",
        "of",
    ):
        table.add_column(heading, justify="right")
    for name, lane in lanes.items():
        ms = lane.ms
        figures = [statistics.median(ms), p95(ms), max(ms)]
        figures += [statistics.median(each) * 1000 for each in lane.seconds.values()]
        table.add_row(
            name,
            str(len(ms)),
            *(f"{figure:.0f}" for figure in figures),
            f"{statistics.median(lane.files):.0f}, at most {max(lane.files)}",
            f"{lane.reader.files_total:,}",
        )
    console.print(table)
