"""`make docs`: the documentation as a site with search, from the Markdown files of the repository."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from spark_jobs.process.home import keep_private
from spark_jobs.settings import PROJECT, load_settings

_INDEX = """<!doctype html>
<meta charset="utf-8">
<title>RocketMQ trace warehouse</title>
<meta http-equiv="refresh" content="0; url=README.html">
<a href="README.html">Documentation</a>
"""


def build(folder: Path, source: Path = PROJECT) -> Path:
    """Write the site of the pages below `source` into `folder`; returns its first page.

    Raises:
        SystemExit: a link leads nowhere, or a page is not on the menu; Sphinx has printed which.
    """
    state = folder.with_name(f"{folder.name}.doctrees")
    options = ["--quiet", "--fail-on-warning", "--keep-going", "--builder", "html"]
    places = ["--conf-dir", str(Path(__file__).parent), "--doctree-dir", str(state), str(source), str(folder)]
    if sphinx([*options, *places]):
        sys.exit("the site was not built: correct the pages that are named above")
    index = folder / "index.html"
    index.write_text(_INDEX)
    return index


if __name__ == "__main__":
    settings = load_settings()
    keep_private(settings.home)
    print(f"open {build(settings.home / 'docs' / 'website')}")
