"""The commands of the README, which each language has."""

from __future__ import annotations

import re
from pathlib import Path

from spark_jobs.settings import PROJECT

LANGUAGES = {"en": PROJECT / "README.md", "zh-CN": PROJECT / "README.zh-CN.md"}
# Commands that take minutes, or that serve until they are ended: the file of tests that runs them, and its call. `make soak` runs
# `make run`.
_RUN = ("tests/e2e/test_make_run.py", 'make("run"')
RUN_BY = {
    "make demo": ("tests/e2e/conftest.py", 'make("demo"'),
    "make run NAMESRV=10.0.0.5:9876": _RUN,
    "make run NAMESRV='10.0.0.5:9876;10.0.0.6:9876' TOPIC=my_trace CLUSTER=prod": _RUN,
    "TRACE_SETTINGS=settings.toml make up": ("tests/up/commands.py", '"make", "up"'),
    "make status": ("tests/up/test_up.py", 'make_up(world, "status")'),
    "make down": ("tests/up/test_up.py", 'make_up(world, "down")'),
    "make dashboards": ("tests/e2e/dashboards.py", "service.running("),
}


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each block of code, without comments: these are translated."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [(language, re.sub(r"(^|\s+)#\s.*$", "", text, flags=re.MULTILINE)) for language, text in found]


def commands(page: Path) -> list[str]:
    """The lines of the blocks that are commands of `make`, perhaps after a variable."""
    lines = [line for language, text in blocks(page) if not language for line in text.splitlines()]
    return [line for line in lines if re.match(r"(?:[A-Z_]+=\S+ )?make ", line)]


def cheap_commands(page: Path) -> list[str]:
    """Those that the tests run as they are."""
    return [line for line in commands(page) if line not in RUN_BY]
