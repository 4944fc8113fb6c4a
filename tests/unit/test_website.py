"""`make docs` writes a site of all pages, with search, that loads nothing from elsewhere; a wrong link ends it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs.website.build import build
from spark_jobs.settings import PROJECT

PAGES = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("docs") / "website").parent


def test_every_page_is_in_it_and_on_its_menu(site):
    menu = set(re.findall(r'class="reference internal" href="([^"#]+)"', (site / "README.html").read_text()))
    runbooks = {f"docs/runbooks/{file.stem}.html" for file in (PROJECT / "docs" / "runbooks").glob("*.md")}
    for page in PAGES:
        name = page.relative_to(PROJECT).with_suffix(".html").as_posix()
        assert (site / name).exists()
        assert name == "README.html" or name in menu | runbooks
    assert 'url=README.html"' in (site / "index.html").read_text()


def test_it_loads_nothing_from_elsewhere(site):
    loads = r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link rel="stylesheet"[^>]* href="([^"]+)"|url\((https?:[^)]+)\)'
    for file in (*site.rglob("*.html"), *site.rglob("*.css")):
        found = ["".join(each) for each in re.findall(loads, file.read_text())]
        assert [each for each in found if re.match(r"(?:https?:)?//", each)] == [], file


@pytest.mark.parametrize(
    ("word", "page"),
    [("rocketmq_trace_open_alert", "docs/metrics"), ("孤儿", "README.zh-CN"), ("消息", "README.zh-CN")],
)
def test_the_search_finds_pages(site, word, page):
    text = (site / "searchindex.js").read_text()
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    found = [index[part][word] for part in ("terms", "titleterms") if word in index[part]]
    numbers = [number for each in found for number in (each if isinstance(each, list) else [each])]
    assert page in [index["docnames"][number] for number in numbers]


@pytest.mark.parametrize(
    ("readme", "page", "says"),
    [
        ("| look at it | [a](docs/a.md) |", "[b](b.md)", "'b.md'"),
        ("| look at it | [a](docs/a.md) |", "[b](#nowhere)", "nowhere"),
        ("", "text", "toctree"),
    ],
    ids=["link", "anchor", "not on the menu"],
)
def test_what_is_wrong_ends_it(tmp_path, capsys, readme, page, says):
    (tmp_path / "source" / "docs").mkdir(parents=True)
    (tmp_path / "source" / "README.md").write_text(f"# Title\n\n{readme}\n")
    (tmp_path / "source" / "README.zh-CN.md").write_text("# Title\n")
    (tmp_path / "source" / "docs" / "a.md").write_text(f"# A\n\n{page}\n")
    with pytest.raises(SystemExit, match="correct the pages"):
        build(tmp_path / "website", tmp_path / "source")
    assert says in capsys.readouterr().err
