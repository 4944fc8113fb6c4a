"""Jobs over few records plan for few rows; those over many, and what the settings say, stay as they are."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_jobs.lake import planning, tables
from spark_jobs.lake.offsets import CHANGE_SEQ, records_after
from spark_jobs.settings import Settings
from spark_jobs.settings_deployment import Spark


def conf(spark: SparkSession) -> dict[str, str | None]:
    return {key: spark.conf.get(key) for key in planning.FEW}


@pytest.fixture
def plain(settings: Settings) -> Settings:
    """The settings of the lake, without a `spark.conf`."""
    return settings.model_copy(update={"spark": Spark()})


def test_few_rows_are_planned_for_few_rows_and_the_session_is_as_before(spark: SparkSession, plain: Settings):
    before = conf(spark)
    assert before != planning.FEW
    with planning.for_records(spark, plain, planning.MOST_FEW):
        assert conf(spark) == planning.FEW
    assert conf(spark) == before


def test_many_rows_are_planned_as_usual(spark: SparkSession, plain: Settings):
    before = conf(spark)
    with planning.for_records(spark, plain, planning.MOST_FEW + 1):
        assert conf(spark) == before


def test_the_settings_have_priority(spark: SparkSession, plain: Settings):
    key = "spark.sql.codegen.wholeStage"
    before = spark.conf.get(key)
    set_by_a_user = plain.model_copy(update={"spark": Spark(conf={key: "true"})})
    with planning.for_records(spark, set_by_a_user, 1):
        assert conf(spark) == planning.FEW | {key: before}


def test_the_records_after_a_change_seq(lake: SparkSession, settings: Settings):
    def add(records: int, change_seq: int) -> None:
        rows = lake.range(records).selectExpr(
            *(f"cast(null as {column.type}) as {column.name}" for column in tables.EVENTS.columns)
        )
        writer = rows.writeTo(tables.EVENTS.full_name)
        writer.option(f"snapshot-property.{CHANGE_SEQ}", str(change_seq)).append()

    assert records_after(settings, None) == 0
    for number, records in enumerate((3, 5, 7), 1):
        add(records, number)
    assert [records_after(settings, seq) for seq in (3, 2, 1)] == [0, 7, 12]
    # No snapshot says what was added since then.
    assert records_after(settings, 0) == 15
    assert records_after(settings, None) == 15
    lake.sql(
        "call lake.system.rewrite_data_files(table => 'events.trace_records', options => map('rewrite-all', 'true'))"
    )
    assert records_after(settings, 2) == 7
