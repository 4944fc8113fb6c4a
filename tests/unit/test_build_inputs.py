"""When a build is incremental, and when it is a full refresh."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from spark_jobs.lake.offsets import CommittedOffsets, Position, Queue
from spark_jobs.mart_build.inputs import DBT_PROJECT, Inputs, Published
from spark_jobs.settings import Limits

EVENTS = CommittedOffsets(
    {Queue("c", "RMQ_SYS_TRACE_TOPIC", "broker-a", 0): Position(7, complete_to=60_000)}, change_seq=5
)
FULL = Inputs.of(EVENTS, Limits(), None)
PUBLISHED = Published(4, FULL.marks, FULL.definitions)


def test_a_build_takes_up_what_came_after_the_last_one():
    assert Inputs.of(EVENTS, Limits(), PUBLISHED) == replace(FULL, change_seq_from=4)


@pytest.mark.parametrize(
    "published",
    [
        None,
        replace(PUBLISHED, watermarks={"c": "1970-01-01 00:01:00.001"}),
        replace(PUBLISHED, watermarks={**FULL.marks, "gone": "1970-01-01 00:00:00.000"}),
        replace(PUBLISHED, definitions="of other models"),
    ],
    ids=["nothing is published", "a watermark went back", "a cluster went away", "models changed"],
)
def test_what_no_record_touches_is_judged_anew_in_a_full_refresh(published):
    assert Inputs.of(EVENTS, Limits(), published) == FULL


def test_other_limits_judge_everything_anew():
    assert Inputs.of(EVENTS, Limits(grace_seconds=1), PUBLISHED).change_seq_from is None


def test_the_project_counts_as_a_definition(tmp_path):
    def definitions() -> str:
        return Inputs.of(EVENTS, Limits(), None, tmp_path).definitions

    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "limits.csv").write_text("a")
    before = definitions()
    (tmp_path / "seeds" / "limits.csv").write_text("b")
    assert definitions() != before


def test_what_dbt_compile_writes_into_the_project_does_not(tmp_path):
    def definitions() -> str:
        return Inputs.of(EVENTS, Limits(), None, tmp_path).definitions

    (tmp_path / "dbt_project.yml").write_text("name: small")
    before = definitions()
    compiled = tmp_path / "target" / "compiled" / "models"
    compiled.mkdir(parents=True)
    (compiled / "small.sql").write_text("select 1")
    assert definitions() == before


def test_the_project_has_a_default_for_every_var_of_a_build_and_these_limits():
    defaults = yaml.safe_load((DBT_PROJECT / "dbt_project.yml").read_text())["vars"]
    of_inputs = Inputs(change_seq_to=0, watermarks={}, limits=Limits()).dbt_vars
    assert defaults == of_inputs | {"view_digests": {}}


def test_a_build_of_what_is_published_adds_nothing():
    assert FULL.adds_nothing_to(replace(PUBLISHED, change_seq_to=5))
    assert not FULL.adds_nothing_to(PUBLISHED)
    assert not FULL.adds_nothing_to(None)


def test_there_is_nothing_to_build_before_the_first_merge():
    assert Inputs.of(CommittedOffsets({}), Limits(), None) is None
