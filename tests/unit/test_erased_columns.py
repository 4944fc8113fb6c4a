"""An erasure reads every column of the marts that may contain the name of a group."""

from __future__ import annotations

from deploy.dashboards.columns import all_tables
from spark_jobs.erasure.marts import COLUMNS
from spark_jobs.erasure.rules import Kind


def test_all_columns_with_a_group_are_erased():
    found = {
        column.name
        for (schema, _), table in all_tables().items()
        for column in table.columns
        if schema == "marts" and column.type == "VARCHAR" and "group" in column.name
    }
    assert found == set(COLUMNS[Kind.GROUP])
