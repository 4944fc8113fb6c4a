"""When a build is incremental, and when it is a full refresh."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from spark_jobs.lake.offsets import CommittedOffsets, Position, Queue
from spark_jobs.mart_build.definitions import (
    DBT_PROJECT,
    Definitions,
    Node,
    ProjectChangedError,
    digest_of_files,
    of_unchanged_files,
)
from spark_jobs.mart_build.inputs import Inputs, Published
from spark_jobs.settings import Limits

EVENTS = CommittedOffsets(
    {Queue("c", "RMQ_SYS_TRACE_TOPIC", "broker-a", 0): Position(7, complete_to=60_000)}, change_seq=5
)


def models(**digests: str) -> Definitions:
    """`hourly` is computed from `fact`, `daily` from `hourly`; `other` from nothing."""
    upstream = {"hourly": ("fact",), "daily": ("hourly",)}
    names = ("fact", "hourly", "daily", "other")
    return Definitions(
        {
            name: Node(name, "audited_table", digests.get(name, "1"), upstream.get(name, ()), f"marts.{name}")
            for name in names
        }
    )


MODELS = models()
FULL = Inputs.of(EVENTS, Limits(), None, MODELS)
PUBLISHED = Published(4, FULL.marks, MODELS.digest)


def test_a_build_takes_up_what_came_after_the_last_one():
    assert Inputs.of(EVENTS, Limits(), PUBLISHED, MODELS) == replace(FULL, change_seq_from=4)


@pytest.mark.parametrize(
    "published",
    [
        None,
        replace(PUBLISHED, watermarks={"c": "1970-01-01 00:01:00.001"}),
        replace(PUBLISHED, watermarks={**FULL.marks, "gone": "1970-01-01 00:00:00.000"}),
        replace(PUBLISHED, definitions="of other models"),
    ],
    ids=["nothing is published", "a watermark went back", "a cluster went away", "nobody knows which models"],
)
def test_a_full_refresh_evaluates_rows_that_no_record_touches(published):
    assert Inputs.of(EVENTS, Limits(), published, MODELS) == FULL


@pytest.mark.parametrize(
    ("changed", "rebuilt"),
    [
        ("other", {"other"}),
        ("daily", {"daily"}),
        ("hourly", {"hourly", "daily"}),
        ("fact", {"fact", "hourly", "daily"}),
    ],
)
def test_what_has_changed_is_rebuilt_with_all_that_is_computed_from_it(changed, rebuilt):
    now = models(**{changed: "2"})
    inputs = Inputs.of(EVENTS, Limits(), PUBLISHED, now, MODELS.tables)
    assert (inputs.change_seq_from, inputs.rebuilt) == (4, rebuilt)
    assert (inputs.of_rebuilt.change_seq_from, inputs.of_rebuilt.rebuilt) == (None, frozenset())
    assert not inputs.adds_nothing_to(replace(PUBLISHED, change_seq_to=5))


def test_a_table_that_is_new_is_built_and_one_that_is_gone_changes_nothing():
    known = MODELS.tables | {"marts.gone": "1"}
    del known["marts.daily"]
    other = replace(PUBLISHED, definitions="of other models")
    assert Inputs.of(EVENTS, Limits(), other, MODELS, known).rebuilt == {"daily"}
    assert not Inputs.of(EVENTS, Limits(), other, MODELS, MODELS.tables | {"marts.gone": "1"}).rebuilt


def test_a_changed_file_is_parsed_again(tmp_path):
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "limits.csv").write_text("a")
    before = digest_of_files(tmp_path, Limits())
    (tmp_path / "seeds" / "limits.csv").write_text("b")
    assert digest_of_files(tmp_path, Limits()) != before
    assert digest_of_files(tmp_path, Limits(grace_seconds=1)) != digest_of_files(tmp_path, Limits())


def test_files_that_change_while_they_are_read_are_read_again(tmp_path):
    file = tmp_path / "model.sql"
    file.write_text("select 0")

    def read(digest: str) -> tuple[str, str]:
        found = file.read_text()
        if found == "select 0":
            file.write_text("select 1")
        return found, digest

    assert of_unchanged_files(tmp_path, Limits(), read) == ("select 1", digest_of_files(tmp_path, Limits()))
    with pytest.raises(ProjectChangedError, match="changes while dbt parses it"):
        of_unchanged_files(tmp_path, Limits(), lambda digest: file.write_text(file.read_text() + "\n"))


def test_what_dbt_compile_writes_into_the_project_is_no_change(tmp_path):
    (tmp_path / "dbt_project.yml").write_text("name: small")
    before = digest_of_files(tmp_path, Limits())
    compiled = tmp_path / "target" / "compiled" / "models"
    compiled.mkdir(parents=True)
    (compiled / "small.sql").write_text("select 1")
    assert digest_of_files(tmp_path, Limits()) == before


def test_the_project_has_a_default_for_every_var_of_a_build_and_these_limits():
    defaults = yaml.safe_load((DBT_PROJECT / "dbt_project.yml").read_text())["vars"]
    of_inputs = Inputs(change_seq_to=0, watermarks={}, limits=Limits()).dbt_vars
    assert defaults == of_inputs | {"view_digests": {}}


def test_a_build_of_what_is_published_adds_nothing():
    assert FULL.adds_nothing_to(replace(PUBLISHED, change_seq_to=5))
    assert not FULL.adds_nothing_to(PUBLISHED)
    assert not FULL.adds_nothing_to(None)


def test_there_is_nothing_to_build_before_the_first_merge():
    assert Inputs.of(CommittedOffsets({}), Limits(), None, MODELS) is None
