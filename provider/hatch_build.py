"""Puts the client of the remoting protocol into the wheel, as `airflow_provider_rocketmq.remoting`.

Its home is `spark_jobs/rocketmq`, beside the Spark data source that uses it too. The wheel has the client alone, so the name of
its package is another one there, in these files and in those that import them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = "spark_jobs.rocketmq"
PACKAGE = "airflow_provider_rocketmq"
THERE = f"{PACKAGE}.remoting"


def sources(root: Path) -> dict[str, str]:
    """The Python files of the wheel by their path in it: those of the package, and those of the client that they import.

    Args:
        root: folder of this file.
    """
    files = {str(file.relative_to(root)): file.read_text() for file in (root / PACKAGE).rglob("*.py")}
    wanted = {"__init__"}.union(*map(_imports, files.values()))
    while missing := {each for each in wanted if _in_wheel(each) not in files}:
        for each in missing:
            files[_in_wheel(each)] = (root.parent / HERE.replace(".", "/") / f"{each}.py").read_text()
            wanted |= _imports(files[_in_wheel(each)])
    return {name: re.sub(rf"\b{re.escape(HERE)}\b", THERE, text) for name, text in sorted(files.items())}


def _in_wheel(module: str) -> str:
    return f"{THERE.replace('.', '/')}/{module}.py"


def _imports(text: str) -> set[str]:
    """The modules of the client that a file imports: `from <client>.<module> import …`, `from <client> import <module>`."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == HERE:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{HERE}."):
            found.add(str(node.module).removeprefix(f"{HERE}."))
    return found


class ClientInWheel(BuildHookInterface):
    """Adds the files as `sources` returns them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files for the build."""
        self._folder = TemporaryDirectory()
        for name, text in sources(Path(self.root)).items():
            file = Path(self._folder.name) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            build_data["force_include"][str(file)] = name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove them."""
        self._folder.cleanup()
