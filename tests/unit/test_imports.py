"""Which package imports which: the code is compared with the table in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from spark_jobs.settings import PROJECT

TOP = ("dags", "plugins", "provider", "deploy", "sandbox")


def package_of(module: str) -> str:
    """The row of the table: a package or module of `spark_jobs`, or another top-level folder."""
    first, *rest = module.split(".")
    if first == "airflow_provider_rocketmq":  # in the folder `provider`
        return "provider"
    return rest[0] if first == "spark_jobs" and rest else first


def imported_by(file: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    ours = (*TOP, "airflow_provider_rocketmq", "spark_jobs", "benchmarks", "docs", "tests")
    return {package_of(module) for module in modules if module.split(".")[0] in ours}


def documented() -> dict[str, set[str]]:
    page = (PROJECT / "docs" / "architecture.md").read_text()
    section = page.partition("\n## Imports\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", section, re.MULTILINE)
    names = [
        (re.findall(r"`(\w+)`", packages), set(re.findall(r"`(\w+)`", found))) for packages, found in rows
    ]
    return {package: found for packages, found in names for package in packages}


def test_imports_are_those_of_the_table():
    found: dict[str, set[str]] = defaultdict(set)
    for top in ("spark_jobs", *TOP):
        for file in (PROJECT / top).rglob("*.py"):
            package = package_of(".".join(file.relative_to(PROJECT).with_suffix("").parts))
            found[package] |= imported_by(file) - {package}
    del found["__init__"]
    assert dict(found) == documented()
