"""One Spark session with the catalog `lake` for the whole test run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from spark_jobs.lake import tables
from spark_jobs.lake.catalog import lake as lake_of
from spark_jobs.lake.session import session
from spark_jobs.settings import Settings
from spark_jobs.settings_deployment import Spark
from tests import lakes
from tests.planning import QUICK


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=Path(tmp_path_factory.mktemp("trace_home")), spark=Spark(conf=QUICK))


@pytest.fixture(scope="session")
def spark(settings: Settings) -> Iterator[SparkSession]:
    started = session("tests", settings)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def catalog(settings: Settings) -> Catalog:
    """The session's tables without Spark."""
    return lake_of(settings)


@pytest.fixture
def lake(spark: SparkSession, settings: Settings) -> SparkSession:
    """The session with every table of the pipeline there and empty."""
    lakes.empty(spark, settings)
    tables.ensure(spark)
    return spark


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """With TRACE_TESTS_NO_SKIP set, as in CI, a skipped test is a failure: CI installs what tests need."""
    report = yield
    if report.skipped and os.environ.get("TRACE_TESTS_NO_SKIP"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
    return report


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End with the files that cost most, set-up and tear-down included, and the CPU time of all processes that ended."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    terminalreporter.section("files that cost most")
    for file, cost in seconds.most_common(15):
        terminalreporter.line(f"{cost:7.1f} s  {file}")
    used = os.times()
    cpu = used.user + used.system + used.children_user + used.children_system
    terminalreporter.line(
        f"{seconds.total():7.1f} s  all {len(seconds)} files; {cpu / 60:.1f} minutes of CPU time"
    )


# Groups that take minutes, longest first: started last, one would keep its process alone at the end.
LONGEST = (
    "up",
    "e2e",
    "faults/jobs",
    "faults/cycle",
    "dbt",
    "incremental",
    "cluster",
    "lake",
    "maintenance",
    "faults/client",
    "broker_facts/message_checks",
    "broker_facts",
    "rocketmq",
    "checks",
    "spark",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make test` runs three processes; what shares a broker or a Spark session stays in one of them."""
    for folder in {item.path.parent for item in items}:
        if not (folder / "__init__.py").exists():  # brokers would be left running, each of them at work
            raise pytest.UsageError(
                f"{folder}: without __init__.py what is of the package lasts until the end"
            )
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: LONGEST.index(groups[item]) if groups[item] in LONGEST else len(LONGEST))


def _group(item: pytest.Item) -> str:
    return str(item.path.relative_to(Path(__file__).parent).parent)
