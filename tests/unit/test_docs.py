"""The documentation is up to date: generated pages, links, commands, paths, settings, tables."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from docs.checks import RUNBOOKS
from docs.data_dictionary import PAGE, render
from docs.sql import statements
from spark_jobs.settings import PROJECT, Settings

PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])
TARGETS = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
FOLDERS = "spark_jobs|dbt_project|dags|plugins|deploy|sandbox|tests|benchmarks|docs"
PATH = re.compile(rf"(?<![\w/.~$-])(?:{FOLDERS})/[\w./-]*\w")
TABLES = set(re.findall(r"^## `lake\.(.+)`$", PAGE.read_text(), re.MULTILINE))
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))


def test_the_data_dictionary_is_up_to_date():
    assert PAGE.read_text() == render(), "run `make dictionary`"


def anchors(page: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@EACH_PAGE
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
        target = (page.parent / link).resolve() if link else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f"{link}#{anchor}"


@EACH_PAGE
def test_commands_paths_and_settings_exist(page):
    text = page.read_text()
    code = "\n".join(re.findall(r"```.*?```", text, re.DOTALL))
    named = re.findall(r"`make ([a-z-]+)", text) + re.findall(
        r"^ *(?:\w+=\S+ )?make ([a-z-]+)", code, re.MULTILINE
    )
    assert set(named) <= TARGETS
    assert [path for path in PATH.findall(text) if not (PROJECT / path).exists()] == []
    for section, name in re.findall(r"\bTRACE_([A-Z_]+?)__([A-Z_]+)", text):
        assert name.lower() in type(getattr(Settings(), section.lower())).model_fields, name
    schemas = r"\blake\.((?:raw|events|broker_facts|ops|marts)\.[a-z]\w+)"
    assert {name for name in re.findall(schemas, text) if name not in TABLES} == set()


def test_the_examples_of_seeds_have_the_columns_of_the_files():
    text = (PROJECT / "docs" / "seeds.md").read_text()
    seeds = PROJECT / "dbt_project" / "seeds"
    shown = dict(re.findall(r"\*\*`(\w+\.csv)`\*\*.*?```text\n(.*?)```", text, re.DOTALL))
    assert sorted(shown) == sorted(file.name for file in seeds.glob("*.csv"))
    for name, example in shown.items():
        header, *rows = csv.reader(io.StringIO(example))
        assert header == next(csv.reader((seeds / name).open()))
        assert rows
        assert {len(row) for row in rows} == {len(header)}


def test_the_table_of_runbooks_has_every_runbook():
    listed = re.findall(r"\]\(runbooks/(\w+)\.md\)", (PROJECT / "docs" / "runbooks.md").read_text())
    assert sorted(listed) == sorted(file.stem for file in RUNBOOKS.glob("*.md"))


def test_statements_end_with_a_semicolon_at_the_end_of_a_line():
    assert statements("select ';'; \nselect\n 1;\n\n") == ["select ';'", "select\n 1"]
