"""`percentile_ms` of the serving files equals the nearest rank of all cases, and its memory does not grow with the rows."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.dashboards.lint import create_tables
from spark_jobs.serving.build import FUNCTIONS, PACKED_HISTOGRAMS

# The longest duration of 63 bits, in ms, is in bucket 7295.
BUCKETS = st.one_of(st.integers(0, 300), st.integers(0, 7295))
# An empty one is stored as NULL.
HISTOGRAMS = st.dictionaries(BUCKETS, st.integers(1, 2**40), max_size=6)
ROWS = st.lists(st.tuples(st.integers(0, 2), HISTOGRAMS), max_size=12)


@pytest.fixture(scope="module", params=["maps", "packed histograms"])
def connection(request):
    """A connection with the functions, and the macro `stored`: a map as its file stores it."""
    with duckdb.connect(config={"threads": "2", "memory_limit": "1GB"}) as opened:
        opened.execute("create schema serving; create table serving.publications (pages varchar)")
        opened.execute(FUNCTIONS.read_text())
        if request.param == "maps":
            opened.execute("create macro stored(histogram) as histogram")
        else:
            opened.execute(PACKED_HISTOGRAMS.read_text())
            opened.execute("create macro stored(histogram) as pack_histogram(histogram)")
        yield opened


def midpoint(bucket: int) -> float:
    """Of the milliseconds of a bucket (docs/definitions.md)."""
    halvings = max(bucket // 128 - 1, 0)
    return (bucket - 128 * halvings) * 2**halvings + (2**halvings - 1) / 2


def percentile(histograms: list[dict[int, int]], p: Fraction, longest: float) -> float | None:
    cases = sum((Counter(each) for each in histograms), Counter())
    if not cases:
        return None
    left = math.ceil(cases.total() * p)
    for bucket in sorted(cases):
        left -= cases[bucket]
        if left <= 0:
            return min(midpoint(bucket), longest)
    raise AssertionError("the rank is above the number of cases")


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, percent=st.integers(1, 100), longest=st.sampled_from([100.0, 1e18]))
def test_it_is_the_nearest_rank_of_the_summed_histograms(connection, rows, percent, longest):
    connection.execute("create or replace temp table marts (name integer, histogram map(integer, bigint))")
    if rows:
        connection.executemany(
            """
            insert into marts select ?, map_from_entries(
              list_transform(list_zip(?::integer[], ?::bigint[]), lambda entry: {'k': entry[1], 'v': entry[2]})
            )
            """,
            [(name, list(each), list(each.values())) if each else (name, None, None) for name, each in rows],
        )
    found = connection.execute(
        f"""with stored as (select name, stored(histogram) as histogram from marts)
        select name, percentile_ms(histogram, {longest}::double, {percent / 100}) from stored group by name"""
    ).fetchall()
    names = {name for name, _ in rows}
    assert dict(found) == {
        name: percentile([each for of, each in rows if of == name], Fraction(percent, 100), longest)
        for name in names
    }


def test_a_million_entries_in_one_group_need_little_memory(connection):
    """A week of hours of 200 topics with 30 buckets each; DuckDB raises an error above the limit of the connection."""
    found = connection.execute("""
        with hours as (
          select stored(
            map_from_entries(list_transform(range(30), lambda i: {'k': (7 * i)::integer, 'v': 1::bigint}))
          ) as histogram
          from range(33600)
        )
        select percentile_ms(histogram, 1e6::double, 0.5), percentile_ms(histogram, 1e6::double, 0.99) from hours
    """).fetchall()
    assert found == [(7 * 14, 7 * 29)]


@pytest.mark.parametrize("connection", ["packed histograms"], indirect=True)
@settings(max_examples=40, deadline=None)
@given(histogram=HISTOGRAMS)
def test_a_packed_histogram_has_the_entries_of_its_map(connection, histogram):
    literal = "map {" + ", ".join(f"{key}: {value}::bigint" for key, value in histogram.items()) + "}"
    found = connection.execute(f"select histogram_map(pack_histogram({literal}))").fetchone()[0]
    assert found == histogram


def test_the_distribution_of_send_durations_has_each_bucket_in_its_range():
    cases = {bucket: bucket + 1 for bucket in range(2688)}  # up to 2^27 ms, 37 hours
    expected: Counter[str] = Counter()
    for bucket, count in cases.items():
        expected[f"{2 ** math.floor(math.log2(max(midpoint(bucket), 1))):>8} ms"] += count
    with duckdb.connect() as reader:
        create_tables(reader)
        reader.execute(
            """
            insert into marts.send_latency by name select 'c' as cluster, pack_histogram(map_from_entries(
              list_zip(?::integer[], ?::bigint[]))) as histogram
            """,
            [list(cases), list(cases.values())],
        )
        found = reader.execute(
            "select duration, sum(cases)::bigint from marts.send_latency_distribution group by duration"
        ).fetchall()
    assert dict(found) == expected
