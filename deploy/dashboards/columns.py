"""The columns of the tables that datasets show, as the YAML files of the dbt project define them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import yaml

from spark_jobs.settings import PROJECT

MODELS = PROJECT / "dbt_project" / "models"


@dataclass(frozen=True)
class Column:
    """A column: its name, DuckDB's type, and the description."""

    name: str
    type: str
    description: str

    @property
    def is_time(self) -> bool:
        return self.type in ("TIMESTAMP", "DATE")


@dataclass(frozen=True)
class Described:
    """A table: what it contains, and its columns in order."""

    description: str
    columns: tuple[Column, ...]


_TYPES = {
    "string": "VARCHAR",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMP",
    "date": "DATE",
    "map<int,bigint>": "STRUCT(entries BIGINT[], up_to BIGINT[16])",
    "array<string>": "VARCHAR[]",
}


# What the serving file has besides tables of dbt: spark_jobs/serving/build.py and dashboards.sql.
OF_THE_FILE = {
    ("serving", "freshness"): Described(
        "Up to when the traces of each cluster are complete, and the publication that the file shows.",
        (
            Column("cluster", "VARCHAR", "RocketMQ cluster; NULL before the first watermark"),
            Column("complete_to", "TIMESTAMP", "the watermark, UTC"),
            Column("published_at", "TIMESTAMP", "when the file was built, UTC"),
            Column("publication_id", "VARCHAR", "id of the publication"),
        ),
    ),
    ("marts", "send_latency_distribution"): Described(
        "Sends by bucket of the histograms of send_latency, with the range of durations that the bucket belongs to.",
        (
            Column("cluster", "VARCHAR", "RocketMQ cluster"),
            Column("topic", "VARCHAR", "topic"),
            Column("producer_group", "VARCHAR", "producer group"),
            Column("hour", "TIMESTAMP", "hour of the sends, UTC"),
            Column("duration", "VARCHAR", "lower bound of the range, ms, a power of two"),
            Column("cases", "BIGINT", "sends"),
        ),
    ),
}


@cache
def all_tables() -> dict[tuple[str, str], Described]:
    found = {}
    for file in sorted((MODELS / "marts").rglob("*.yml")):
        for model in yaml.safe_load(file.read_text()).get("models", []):
            found["marts", model["name"]] = _described(model)
    for source in yaml.safe_load((MODELS / "sources" / "ops.yml").read_text())["sources"]:
        for table in source["tables"]:
            found[source["name"], table["name"]] = _described(table)
    return found | OF_THE_FILE


def _described(table: dict) -> Described:
    columns = tuple(Column(c["name"], _TYPES[c["data_type"]], c["description"]) for c in table["columns"])
    return Described(" ".join(table["description"].split()), columns)


def columns_of(schema: str, table: str) -> Described:
    """The table of the dbt project.

    Raises:
        KeyError: dbt has no such mart, and the jobs no such table.
    """
    return all_tables()[schema, table]
