"""PySpark does not look up the same Java classes for each statement."""

from __future__ import annotations

import pytest
from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def test_a_statement_of_dbt_looks_up_no_java_class(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    """dbt-spark asks for the session each time. A function of several columns passes them to Java as a list."""
    asked: list[str] = []
    look_up = JVMView.__getattr__

    def recorded(view: JVMView, name: str) -> object:
        asked.append(name)
        return look_up(view, name)

    monkeypatch.setattr(JVMView, "__getattr__", recorded)
    rows = SparkSession.builder.getOrCreate().sql("select 1 as one").select(F.coalesce("one", F.lit(2)))
    assert rows.collect() == [(1,)]
    assert asked == []
