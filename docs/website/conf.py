"""Sphinx's configuration of the documentation as a site; `make docs` builds it (docs/site.py).

The pages are the Markdown files as they are. What is on the menu, and in which order, is the table "Documentation" of the README:
a page that is not there, or a link that leads nowhere, ends the build.
"""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from pygments.lexers import TextLexer
from sphinx.search.en import SearchEnglish

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
project = "RocketMQ trace warehouse"
author = "the project's authors"
version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**", "provider/README.md"]
exclude_patterns = ["docs/website", "**/*.py", "**/*.png", "**/__pycache__"]
source_suffix = {".md": "markdown"}
nitpicky = True

# Anchors as GitHub makes them.
myst_heading_anchors = 4
html_search_language = "en-zh"
html_theme = "furo"
html_title = project
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

_LINK = re.compile(r"\]\(([^)#:]+)\.md\)")
"""Links to pages, without anchor."""
_PARTS = {"docs/runbooks": ("docs", "runbooks/"), "docs/decisions/README": ("docs/decisions", r"\w+$")}
"""A page to its folder, and which of its links are parts of it."""


class EnglishAndChinese(SearchEnglish):
    """Finds words of two characters in Chinese text, too, which has no spaces between words."""

    lang = "en-zh"

    def split(self, input: str) -> list[str]:
        """The words of a text, and each pair of Chinese characters."""
        pairs = (pair for run in re.findall(r"[\u4e00-\u9fff]+", input) for pair in pairwise(run))
        return [*super().split(input), *("".join(pair) for pair in pairs)]


def _menu(readme: str) -> str:
    """Hidden tables of contents, from the rows of the README's table: a part of the menu each."""
    rows = re.findall(r"^\| ([\w ]+ it) \| (.*) \|$", readme, re.MULTILINE)
    parts = [(purpose.capitalize(), _LINK.findall(pages)) for purpose, pages in rows]
    parts.append(("中文", ["README.zh-CN"]))
    return "".join(_toctree(f":caption: {title}\n", pages) for title, pages in parts)


def _toctree(options: str, pages: list[str]) -> str:
    entries = "\n".join(f"/{page}" for page in pages)
    return f"\n\n```{{toctree}}\n:hidden:\n{options}\n{entries}\n```\n"


def _add_menu(app: Sphinx, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += _menu(source[0])
    elif name in _PARTS:
        folder, part = _PARTS[name]
        pages = dict.fromkeys(_LINK.findall(source[0]))
        source[0] += _toctree("", [f"{folder}/{page}" for page in pages if re.match(part, page)])


def setup(app: Sphinx) -> None:
    """Sphinx calls it."""
    app.connect("source-read", _add_menu)
    app.add_search_language(EnglishAndChinese)
    # A script that draws the diagrams would have to be fetched; as text they can be read.
    app.add_lexer("mermaid", TextLexer)
