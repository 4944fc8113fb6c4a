"""What Superset 6.1 and duckdb-engine 0.17 compute again for each query of a chart, computed once, or in C.

They replace functions and classes of these releases; `make bench-dashboards` shows what they save.
"""

import importlib
from functools import cache
from typing import Any

import duckdb
import duckdb_engine
from pandas import NamedAgg
from sqlalchemy.dialects.postgresql.base import PGIdentifierPreparer

_IN_C = {"max", "mean", "min", "sum"}


def install() -> None:
    """Replace them in this process."""
    _aggregate_by_name()
    duckdb_engine.Dialect.preparer = _Preparer


def _aggregate_by_name() -> None:
    """Pandas aggregates the series of a chart by name ("mean") in C; Superset's function of numpy is called for each point."""
    pivot: Any = importlib.import_module("superset.utils.pandas_postprocessing.pivot")
    functions_of = pivot._get_aggregate_funcs

    def by_name(df: Any, aggregates: dict[str, dict[str, Any]]) -> dict[str, NamedAgg]:
        found = functions_of(df, aggregates)
        for name, of in aggregates.items():
            if of["operator"] in _IN_C and not of.get("options"):
                found[name] = NamedAgg(found[name].column, of["operator"])
        return found

    pivot._get_aggregate_funcs = by_name


@cache
def _keywords() -> frozenset[str]:
    query = "select keyword_name from duckdb_keywords() where keyword_category == 'reserved'"
    return frozenset(name for (name,) in duckdb.cursor().execute(query).fetchall())


class _Preparer(duckdb_engine.DuckDBIdentifierPreparer):
    """Quotes identifiers. Superset creates an engine for each query, and duckdb-engine asks DuckDB for its keywords each time."""

    def __init__(self, dialect: Any, **kwargs: Any) -> None:
        PGIdentifierPreparer.__init__(self, dialect, **kwargs)
        self.reserved_words.update(_keywords())
