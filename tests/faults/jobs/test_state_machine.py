"""Whatever comes in whatever order, each message of the broker is in raw once, and each record in events once.

Steps are drawn with a seed: produce, extract, merge, crash, compact and expire, read again, decode again, erase.
TRACE_SOAK_STEPS says how many: 300 in `make soak`, 10 without it; TRACE_SOAK_SEED which.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F

from spark_jobs.erasure.bodies import ERASED
from spark_jobs.erasure.rules import Kind
from spark_jobs.jobs import reextract
from spark_jobs.jobs.erase import erase
from spark_jobs.lake import publish
from spark_jobs.lake.tables import ERASURES, EVENTS, RAW
from tests.faults.jobs.bodies import body
from tests.faults.jobs.killing import crashed
from tests.faults.jobs.table_policy import maintain
from tests.faults.jobs.world import CLUSTER, World

STEPS = int(os.environ.get("TRACE_SOAK_STEPS", "10"))
SEED = int(os.environ.get("TRACE_SOAK_SEED", "7"))
MESSAGES = 40


class Machine:
    def __init__(self, world: World, rng: random.Random):
        self.world, self.rng = world, rng
        self.erased: list[str] = []
        self.produced = 0
        self.steps: dict[str, tuple[Callable[[], None], int]] = {
            "produce": (self.produce, 4),
            "extract": (lambda: self.ended(world.extract()), 4),
            "merge": (lambda: self.ended(world.merge()), 4),
            "crash": (self.crash, 3),
            "maintain": (self.maintain, 2),
            "read again": (self.read_again, 2),
            "decode again": (self.decode_again, 1),
            "erase": (self.erase, 1),
        }

    def step(self) -> str:
        names = list(self.steps)
        name = self.rng.choices(names, [self.steps[each][1] for each in names])[0]
        self.steps[name][0]()
        return name

    def produce(self) -> None:
        self.world.write(MESSAGES)
        self.produced += 1

    def ended(self, code: int) -> None:
        assert code == 0

    def crash(self) -> None:
        """An extraction or a merge ends before or after it writes, is audited, or is published."""
        step = self.rng.choice([(publish, "append"), (publish, "fast_forward")])
        after = self.rng.random() < 0.5
        crashed(step, self.rng.choice([self.world.extract, self.world.merge]), after)

    def maintain(self) -> None:
        assert [done.refused for done in maintain(self.world)] == [None, None]

    def read_again(self) -> None:
        now = datetime.now(UTC)
        minutes = self.rng.uniform(0, 3)
        times = [
            "--from",
            f"{now - timedelta(minutes=minutes):%FT%T}",
            "--to",
            f"{now + timedelta(days=1):%FT%T}",
        ]
        self.ended(self.world._here(reextract.main, [*times, "--cluster", CLUSTER, "--run-id", "again"]))

    def decode_again(self) -> None:
        now = datetime.now(UTC)
        day = timedelta(days=1)
        self.ended(self.world.replay("--from", f"{now - day:%F}", "--to", f"{now + day:%F}"))

    def erase(self) -> None:
        """By the key of a record that there may be."""
        number = 10**4 * self.rng.randrange(2 * self.produced) + self.rng.randrange(MESSAGES // 2)
        keys = [
            f.decode() for f in body(number).replace(b"\x02", b"\x01").split(b"\x01") if f.startswith(b"key-")
        ]
        if keys:
            self.erased.append(self.rng.choice(keys))
            erase(self.world.spark, self.world.settings, CLUSTER, Kind.KEY, self.erased[-1], "erasure")

    def assert_conserved(self) -> None:
        """After an extraction and a merge; records that were erased are counted in their messages."""
        world = self.world
        self.ended(world.extract())
        self.ended(world.merge())
        world.look_at_the_broker()
        sent = {place: pieces for place, (_, _, pieces) in world.messages.items()}
        raw = world.spark.table(RAW.full_name).where(F.col("trace_topic") == world.topics[0])
        place = ("trace_topic", "broker", "queue_id", "queue_offset")
        stored = raw.select(*place, F.col("properties")[ERASED].cast("int").alias("erased")).collect()
        assert Counter(tuple(row[:4]) for row in stored) == Counter(sent.keys())
        records = world.rows(EVENTS, *place, "record_index")
        assert len(records) == len(set(records))
        found = Counter(row[:4] for row in records)
        expected = {tuple(row[:4]): sent[tuple(row[:4])] - (row.erased or 0) for row in stored}
        assert found == Counter({p: count for p, count in expected.items() if count})
        for key in self.erased:
            assert raw.where(F.contains("body", F.lit(key.encode()))).isEmpty()
            assert world.spark.table(EVENTS.full_name).where(F.contains("keys", F.lit(key))).isEmpty()


@pytest.mark.timeout(300 + 60 * STEPS)
def test_any_order(world: World, record_property):
    rng = random.Random(SEED)
    machine = Machine(world, rng)
    taken = Counter[str]()
    machine.produce()
    try:
        for number in range(1, STEPS + 1):
            taken[machine.step()] += 1
            if number % 6 == 0 or number == STEPS:
                machine.assert_conserved()
    finally:
        record_property("counts", {"seed": str(SEED), **{name: taken[name] for name in machine.steps}})
        world.spark.sql(
            f"delete from {ERASURES.full_name}"
        )  # rules obey no topic: later tests would lose keys
