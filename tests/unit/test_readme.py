"""The README has the same commands, settings, links and pictures in each language."""

from __future__ import annotations

import re
import tomllib

import pytest

from spark_jobs.settings import PROJECT, Settings
from tests.readme import LANGUAGES, RUN_BY, blocks, cheap_commands, commands

ENGLISH, CHINESE = LANGUAGES["en"], LANGUAGES["zh-CN"]


def inline_commands(page) -> list[str]:
    return re.findall(r"`(make [^`]+)`", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S))


def headings(page) -> list[str]:
    return re.findall(r"^#+ ", page.read_text(), re.MULTILINE)


def links(page) -> list[str]:
    return re.findall(r"\]\(([^)]+)\)", page.read_text())


def test_the_blocks_are_equal_but_for_comments():
    assert len(blocks(ENGLISH)) > 7
    assert blocks(CHINESE) == blocks(ENGLISH)


@pytest.mark.parametrize("of", [headings, inline_commands], ids=["headings", "inline commands"])
def test_the_pages_have_the_same(of):
    assert len(of(ENGLISH)) > 3
    assert sorted(of(CHINESE)) == sorted(of(ENGLISH))


def test_the_links_are_the_same_and_lead_to_the_other_language():
    assert set(links(ENGLISH)) - set(links(CHINESE)) == {CHINESE.name}
    assert set(links(CHINESE)) - set(links(ENGLISH)) == {ENGLISH.name}


def test_every_command_is_run_by_a_test():
    """The cheap ones by tests/e2e/test_readme.py, the others by the file that the table names."""
    found = commands(ENGLISH)
    assert [line for line in RUN_BY if line not in found] == []
    assert len(cheap_commands(ENGLISH)) == len(found) - len(RUN_BY) > 4
    for file, call in RUN_BY.values():
        assert call in (PROJECT / file).read_text(), file


def test_the_settings_can_be_used(monkeypatch, tmp_path):
    ((_, text),) = [block for block in blocks(ENGLISH) if block[0] == "toml"]
    (tmp_path / "settings.toml").write_text(text)
    monkeypatch.setenv("TRACE_SETTINGS", str(tmp_path / "settings.toml"))
    (cluster,) = Settings().clusters
    (given,) = tomllib.loads(text)["clusters"]
    assert cluster.namesrv == given["namesrv"]
    assert cluster.credentials_env == given["credentials_env"]
