"""The whole job `erase`, marts included: no file of the warehouse holds the text after it, nor anything that dbt wrote."""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import pytest

from spark_jobs.jobs import erase, marts
from spark_jobs.jobs.merge import merge_all
from spark_jobs.lake import tables
from spark_jobs.lookup.identifiers import identifier_hash
from spark_jobs.maintenance.retention import drop_old_rows
from spark_jobs.serving import files
from spark_jobs.settings import TablePolicy
from tests.maintenance.files import holding
from tests.planning import run_jobs_on, without_data_tests
from tests.spark.stored import messages, planned, write

S, R = "\x01", "\x02"
TEXT = "7F00000100002A9F4E25VICTIM"
PUB = "Pub {time} DefaultRegion orders-producer orders {id} TagA {key} 10.0.0.1:10911 128 3 0 OID{id} true"
BEFORE = "SubBefore {time} DefaultRegion mail-service RQ{id} {id} 0 {key}"
AFTER = "SubAfter RQ{id} {id} 7 true {key} 0 {time} mail-service"


def body(msg_id: str) -> str:
    """A message that was sent and consumed."""
    values = {"id": msg_id, "key": f"key-of-{msg_id}", "time": "1795219190000"}
    return "".join(line.format(**values).replace(" ", S) + R for line in (PUB, BEFORE, AFTER))


@pytest.mark.timeout(1800)
def test_no_file_holds_it(lake, settings, monkeypatch, capsys):
    run_jobs_on(settings, monkeypatch)
    rows = messages(lake, 0, 1, body(TEXT)).union(messages(lake, 1, 2, body("OTHER0001")))
    write(lake, settings, rows, planned(0, 2), "run")
    merge_all(lake, settings, "run")
    assert marts.main([]) == 0
    before = holding(settings.home, TEXT)
    for part in (
        "warehouse/raw/",
        "warehouse/events/",
        "warehouse/marts/fct_sends/",
        "warehouse/marts/fct_messages/",
        "serving/",
    ):
        assert any(file.startswith(part) for file in before), part
    arguments = ["--cluster", "c", "--msg-id", TEXT]
    assert erase.main([*arguments, "--dry-run"]) == 0
    assert holding(settings.home, TEXT) == before
    assert erase.main([*arguments, "--yes"]) == 0
    assert holding(settings.home, TEXT) == []
    assert files.retained(settings) == [files.current(settings)], "older serving files are gone"
    with duckdb.connect(files.current(settings), read_only=True) as reader:
        assert reader.execute("select msg_id from lake.marts.fct_messages").fetchall() == [("OTHER0001",)]
    assert {row.msg_id for row in lake.table("lake.marts.fct_messages").collect()} == {"OTHER0001"}
    assert lake.table(tables.RAW.full_name).count() == 2
    assert lake.table(tables.ERASURES.full_name).where("completed_at is null").isEmpty()
    assert marts.main([]) == 0, "the next build goes on from main"

    def fails(*_, **__):
        raise OSError("disk quota exceeded")

    # A serving file that cannot be built again would keep what was erased.
    assert files.retained(settings)
    monkeypatch.setattr(erase.serving, "build", fails)
    erase.rebuild_serving_file(settings)
    assert files.retained(settings) == []
    assert "all of them were removed" in capsys.readouterr().err


NEXT_DAY = 10  # the offset from which the queue of `stored` is in the next day


@pytest.mark.timeout(1800)
def test_rows_of_the_marts_whose_records_are_gone_stay_but_for_those_that_name_it(
    lake, settings, monkeypatch
):
    run_jobs_on(settings, monkeypatch)
    rows = messages(lake, 0, 1, body(TEXT)).union(messages(lake, 1, 2, body("OTHER0001")))
    again = messages(lake, 2, NEXT_DAY, body("OTHER0002")).union(
        messages(lake, NEXT_DAY, NEXT_DAY + 1, body(TEXT))
    )
    write(lake, settings, rows.union(again), planned(0, NEXT_DAY + 1), "run")
    merge_all(lake, settings, "run")
    with without_data_tests():
        assert marts.main([]) == 0
    day_after = datetime(2026, 11, 22, 13, tzinfo=UTC)
    for table in (tables.RAW, tables.EVENTS):
        policy = TablePolicy(tables=table.name, retention_days=1)
        drop_old_rows(lake, settings, table.name, policy, day_after, "retention")
    assert lake.table(tables.RAW.full_name).count() == 1

    with without_data_tests():
        assert marts.main(["--full-refresh"]) == 0
    assert {row.msg_id for row in lake.table("lake.marts.fct_messages").collect()} == {
        *("OTHER0001", "OTHER0002", TEXT)
    }

    def indexed() -> set[int]:
        return {row.identifier_hash for row in lake.table("lake.intermediate.int_identifier_hours").collect()}

    hashes = {msg_id: identifier_hash("c", msg_id) for msg_id in ("OTHER0001", "OTHER0002", TEXT)}
    assert set(hashes.values()) <= indexed()
    assert erase.main(["--cluster", "c", "--msg-id", TEXT, "--yes"]) == 0
    assert {row.msg_id for row in lake.table("lake.marts.fct_messages").collect()} == {
        *("OTHER0001", "OTHER0002")
    }
    assert hashes.pop(TEXT) not in indexed()
    assert set(hashes.values()) <= indexed()
    assert holding(settings.home, TEXT) == []
