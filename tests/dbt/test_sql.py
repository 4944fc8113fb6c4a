"""`make sql`, the functions of the serving file, and the queries of the documentation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from spark_jobs.serving import files
from spark_jobs.serving.build import build
from spark_jobs.settings import PROJECT, Settings


def shell(settings: Settings, *args: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TRACE_HOME": str(settings.home)} | ({"HOME": str(home)} if home else {})
    return subprocess.run(
        [sys.executable, "-m", "spark_jobs.serving.sql", *args],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_make_sql(served, tmp_path):
    absent = shell(served, "--query", "select 1")
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "no serving file" in absent.stderr
    build(served)
    query = "select topic, sum(sends)::int as sends from lake.marts.send_latency where topic = 'timed' group by topic"
    assert shell(served, "--query", query, "--format", "csv").stdout == "topic,sends\ntimed,600\n"
    assert shell(served, "--query", query, "--format", "json").stdout == '[{"topic":"timed","sends":600}]\n'
    assert "│ timed │" in shell(served, "--query", query).stdout
    wrong = shell(served, "--query", "select nothing")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "Binder Error" in wrong.stderr
    (tmp_path / ".duckdbrc").write_text("select 'from the init file';")
    assert "init file" not in shell(served, "--query", query, home=tmp_path).stdout
    assert "read-only" in shell(served, "--query", "drop table lake.marts.send_latency").stderr


LATENCY_MARTS = {
    "send_latency": "producer_group",
    "consume_latency": "consumer_group",
    "queue_wait": "consumer_group",
    "end_to_end_latency": "consumer_group",
}


@pytest.fixture(scope="module")
def file(marts, settings):
    """The serving file of the marts, for tests that only read it."""
    files.remove_all(settings)
    yield build(settings).file
    files.remove_all(settings)


@pytest.mark.parametrize("mart", LATENCY_MARTS)
def test_percentiles_of_the_function_equal_those_of_the_marts(file, mart):
    """Of each hour, and of the hours of each day."""
    columns = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
    functions = ", ".join(f"percentile_ms(histogram, max_ms, {p})" for p in columns.values())
    key = f"cluster, {LATENCY_MARTS[mart]}, topic"
    with duckdb.connect(file, read_only=True) as reader:
        for table, column, time in ((mart, "hour", "hour"), (f"{mart}_daily", "day", "hour::date")):
            by_mart = f"select {key}, {column}, {', '.join(columns)} from lake.marts.{table}"
            by_function = (
                f"select {key}, {time} as moment, {functions} from lake.marts.{mart} group by {key}, moment"
            )
            expected = Counter(reader.execute(by_mart).fetchall())
            assert Counter(reader.execute(by_function).fetchall()) == expected
            assert any(row[-1] is not None for row in expected)
        summed = (
            f"select max(n) from (select count(*) as n from lake.marts.{mart} group by {key}, hour::date)"
        )
        assert reader.execute(summed).fetchone()[0] > 1


@pytest.mark.parametrize("p", ["0", "-0.5", "99", "1.5"])
def test_a_percentile_is_above_0_and_at_most_1(file, p):
    with duckdb.connect(file, read_only=True) as reader:
        with pytest.raises(duckdb.Error, match="above 0 and at most 1"):
            reader.execute(f"select percentile_ms(histogram, max_ms, {p}) from lake.marts.send_latency")
        null = reader.execute("select percentile_ms(histogram, max_ms, null) from lake.marts.send_latency")
        assert null.fetchall() == [(None,)]


def test_the_examples_of_the_documentation_run(marts, settings, file, tmp_path):
    """Their `var` is the home of the lake."""
    (tmp_path / "var").symlink_to(settings.home)
    page = (PROJECT / "docs" / "sql.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 2
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "cluster" in done.stdout
    for statement in re.findall(r"<<'SQL'\n(.*?)\nSQL", page, re.DOTALL):
        assert marts.sql(statement).collect()
    pages = page + (PROJECT / "README.md").read_text()
    queries = re.findall(r"make sql QUERY=\"(.*?)\"", pages, re.DOTALL)
    assert len(queries) >= 6
    with duckdb.connect(file, read_only=True) as reader:
        for query in queries:
            reader.execute(query)
