"""The Iceberg tables that the jobs write, as the sources of the dbt project define them: columns, comments, partitions.

`dbt_project/models/sources/<namespace>.yml` is their one definition: dbt documents it, and the jobs create the tables from it.
A table's `config.meta` has its partition transform (`partitioned_by`), the sort order of its writes (`ordered_by`) and its
Iceberg table `properties`. The marts are models of the dbt project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from spark_jobs.settings import PROJECT

if TYPE_CHECKING:  # programs without Spark import this module
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAMESPACES = ("raw", "events", "broker_facts", "staging", "changes", "intermediate", "marts", "ops")
SOURCES = PROJECT / "dbt_project" / "models" / "sources"


class Column(NamedTuple):
    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class Table:
    """An Iceberg table: `lake.<name>`, its grain in the comment, columns in order."""

    name: str
    comment: str
    columns: tuple[Column, ...]
    partitioned_by: str | None = None
    ordered_by: str | None = None
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def full_name(self) -> str:
        return f"lake.{self.name}"

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def schema(self) -> str:
        """The columns as a Spark DDL schema string."""
        return ", ".join(f"`{c.name}` {c.type}" for c in self.columns)


def _read(namespace: str) -> list[Table]:
    """The tables of a namespace."""
    # That of libyaml: every process reads these files, and the loader written in Python takes nine times as long.
    (source,) = yaml.load((SOURCES / f"{namespace}.yml").read_text(), yaml.CSafeLoader)["sources"]
    found = []
    for table in source["tables"]:
        columns = tuple(Column(c["name"], c["data_type"], c["description"]) for c in table["columns"])
        meta = dict(table.get("config", {}).get("meta", {}))  # a copy: tables of a file may share one
        properties = tuple(meta.pop("properties", {}).items())
        name = f"{namespace}.{table['name']}"
        found.append(Table(name, table["description"], columns, properties=properties, **meta))
    return found


ALL = tuple(table for namespace in ("raw", "events", "broker_facts", "ops") for table in _read(namespace))
_BY_NAME = {table.name: table for table in ALL}

RAW = _BY_NAME["raw.trace_messages"]
EVENTS = _BY_NAME["events.trace_records"]
OBSERVATIONS = _BY_NAME["broker_facts.observations"]
BROKERS = _BY_NAME["broker_facts.brokers"]
TOPICS = _BY_NAME["broker_facts.topics"]
TOPIC_OFFSETS = _BY_NAME["broker_facts.topic_offsets"]
GROUPS = _BY_NAME["broker_facts.groups"]
CONSUMERS = _BY_NAME["broker_facts.consumers"]
SUBSCRIPTIONS = _BY_NAME["broker_facts.subscriptions"]
GROUP_OFFSETS = _BY_NAME["broker_facts.group_offsets"]
PRODUCERS = _BY_NAME["broker_facts.producers"]
CLIENT_HOSTS = _BY_NAME["broker_facts.client_hosts"]
MESSAGE_CHECKS = _BY_NAME["broker_facts.message_checks"]
INGEST_GAPS = _BY_NAME["ops.ingest_gaps"]
REPLACED_RECORDS = _BY_NAME["ops.replaced_records"]
PUBLICATIONS = _BY_NAME["ops.publications"]
RETENTION = _BY_NAME["ops.retention"]
ERASURES = _BY_NAME["ops.erasures"]
CHECK_RESULTS = _BY_NAME["ops.check_results"]
ALERTS = _BY_NAME["ops.alerts"]
MAINTENANCE_WINDOWS = _BY_NAME["ops.maintenance_windows"]

# The keys of a trace message (its position) and of a record in it. The key of the traced message is a macro of dbt_project.
TRACE_MESSAGE_KEY = ["cluster", "trace_topic", "broker", "queue_id", "epoch", "queue_offset"]
RECORD_KEY = [*TRACE_MESSAGE_KEY, "record_index"]


def _definition(column: Column) -> str:
    comment = column.comment.replace("'", "\\'")
    return f"`{column.name}` {column.type} comment '{comment}'"


def create_statement(table: Table) -> str:
    """The statement `create table if not exists` for a table."""
    columns = ",\n  ".join(map(_definition, table.columns))
    properties = dict(table.properties) | {"format-version": "2"}
    partition = f"\npartitioned by ({table.partitioned_by})" if table.partitioned_by else ""
    comment = table.comment.replace("'", "\\'")
    return (
        f"create table if not exists {table.full_name} (\n  {columns}\n) using iceberg{partition}\n"
        f"comment '{comment}'\ntblproperties ({_listed(properties)})"
    )


def _missing_columns(table: Table, existing: StructType) -> list[str]:
    """The definitions of missing columns, and of missing fields of columns that are arrays of structs."""
    found = []
    for column in table.columns:
        if column.name not in existing.names:
            found.append(_definition(column))
        elif column.type.startswith("array<struct<"):
            known, wanted = _fields_of(existing, column), _fields_of(existing.fromDDL(table.schema), column)
            added = [(name, type_) for name, type_ in wanted.items() if name not in known]
            found += [f"{column.name}.element.{name} {type_}" for name, type_ in added]
    return found


def _fields_of(schema: Any, column: Column) -> dict[str, str]:
    """Name to type of the fields of a column that is an array of structs."""
    return {field.name: field.dataType.simpleString() for field in schema[column.name].dataType.elementType}


def missing(catalog: Catalog) -> list[str]:
    """The tables, and the columns of tables, that `ensure` would add; without Spark."""
    found = []
    for table in ALL:
        if not catalog.table_exists(table.name):
            found.append(table.name)
            continue
        names = {field.name for field in catalog.load_table(table.name).schema().fields}
        found += [f"{table.name}.{name}" for name in table.column_names if name not in names]
    return found


def _missing_properties(spark: SparkSession, table: Table) -> dict[str, str]:
    """The properties that the table does not have; a value that an operator has set stays."""
    from spark_jobs.lake.publish import load  # it imports this module

    found = load(spark, table.full_name).properties() if table.properties else {}
    return {key: value for key, value in table.properties if key not in found}


def _listed(properties: dict[str, str]) -> str:
    return ", ".join(f"'{key}'='{value}'" for key, value in sorted(properties.items()))


def ensure(spark: SparkSession) -> None:
    """Create missing namespaces and tables, and add what tables of earlier versions lack: columns and properties."""
    for namespace in NAMESPACES:
        spark.sql(f"create namespace if not exists lake.{namespace}")
    for table in ALL:
        if spark.catalog.tableExists(table.full_name):
            if columns := _missing_columns(table, spark.table(table.full_name).schema):
                spark.sql(f"alter table {table.full_name} add columns ({', '.join(columns)})")
            if properties := _missing_properties(spark, table):
                spark.sql(f"alter table {table.full_name} set tblproperties ({_listed(properties)})")
            continue
        spark.sql(create_statement(table))
        if table.ordered_by:
            spark.sql(
                f"alter table {table.full_name} write distributed by partition locally ordered by {table.ordered_by}"
            )
