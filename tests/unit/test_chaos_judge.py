"""The judge of the chaos run: what it must find, and what it must not."""

from __future__ import annotations

import pytest

from tests.chaos.judge import Happened, Shown, problems
from tests.chaos.plan import Planned, drawn, kinds, pause

INTERVAL = 50.0
BROKER = next(kind for kind in kinds(6) if kind.name == "broker")
JOB = next(kind for kind in kinds(6) if kind.name == "job")
LONG = Happened(Planned(BROKER, 200, True), 100, 300)
SHORT = Happened(Planned(BROKER, 10, False), 100, 110)
NEXT = Happened(Planned(BROKER, 10, False), 180, 190)


@pytest.mark.parametrize(
    ("faults", "alerts", "found"),
    [
        pytest.param([LONG], [Shown("lag", "c", 150, 340)], [], id="as it should be"),
        pytest.param([LONG], [Shown("lag", "c", 200, 400)], [], id="at the last moment"),
        pytest.param([LONG], [], ["no alert until 200 s, none"], id="no alert"),
        pytest.param(
            [LONG], [Shown("lag", "c", 201, 340)], ["no alert until 200 s, the first at 201 s"], id="too late"
        ),
        pytest.param(
            [LONG], [Shown("disk_space", "", 150, 340)], ["no alert until 200 s"], id="of another kind"
        ),
        pytest.param(
            [LONG], [Shown("lag", "c", 150, 250)], ["was resolved at 250 s"], id="resolved too early"
        ),
        pytest.param(
            [LONG],
            [Shown("task_failed", "t", 150, 250), Shown("lag", "c", 160, 340)],
            [],
            id="another alert goes on",
        ),
        pytest.param([LONG], [Shown("lag", "c", 150, 401)], ["resolved at 401 s"], id="resolved too late"),
        pytest.param([LONG], [Shown("lag", "c", 150, None)], ["resolved never"], id="never resolved"),
        pytest.param([SHORT], [], [], id="a short fault needs no alert"),
        pytest.param([SHORT], [Shown("lag", "c", 130, 180)], [], id="a short fault may have one"),
        pytest.param(
            [SHORT], [Shown("lag", "c", 130, None)], ["resolved never"], id="of a short one, never resolved"
        ),
        pytest.param([SHORT, NEXT], [Shown("lag", "c", 130, 290)], [], id="another fault keeps it open"),
        pytest.param(
            [SHORT, NEXT], [Shown("lag", "c", 130, 291)], ["resolved at 291 s"], id="but not for longer"
        ),
        pytest.param([SHORT], [Shown("lag", "c", 500, 510)], ["without a fault"], id="a false alarm"),
        pytest.param(
            [Happened(Planned(JOB, 350, True), 0, 350)],
            [Shown("ingest_silent", "", 300, 400)],
            [],
            id="limit and intervals",
        ),
    ],
)
def test_the_judge(faults: list[Happened], alerts: list[Shown], found: list[str]):
    lines = problems(faults, alerts, INTERVAL)
    assert len(lines) == len(found), lines
    for line, part in zip(lines, found, strict=True):
        assert part in line


def test_an_hour_has_enough_faults_of_each_kind_and_a_seed_repeats_them():
    plan = drawn(7, 3600 - 400, 6, INTERVAL)
    assert plan == drawn(7, 3600 - 400, 6, INTERVAL) != drawn(8, 3600 - 400, 6, INTERVAL)
    assert sum(each.is_long for each in plan) >= 6
    assert sum(not each.is_long for each in plan) >= 20
    names = [each.kind.name for each in plan]
    assert all(names.count(kind.name) >= 2 for kind in kinds(6))
    assert all(each.seconds > each.kind.limit for each in plan if each.is_long)
    assert sum(each.seconds + pause(each, INTERVAL) for each in plan) <= 3200
