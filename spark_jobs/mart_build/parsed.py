"""The parsed dbt project, kept from run to run.

dbt's own cache (partial parsing) is of no use: it holds for the same vars only, and those of a build differ from run to run. What
the parser needs of them is which kind of run it is: an incremental run has references that a full refresh does not have.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest
from dbt.parser.manifest import extended_mashumaro_encoder as _write
from dbt.parser.manifest import extended_mashumuro_decoder as _read

from spark_jobs.mart_build import definitions
from spark_jobs.mart_build.inputs import Inputs

# Their macros are part of the manifest.
_PACKAGES = ("dbt-core", "dbt-common", "dbt-adapters", "dbt-spark")
_KEPT = 4  # versions of the project, besides the one that is parsed


def manifest(inputs: Inputs, state: Path, project: Path, command: list[str]) -> Manifest | None:
    """The manifest of the project for this kind of run, new or of an earlier run; None if dbt has to parse it itself.

    Args:
        inputs: those of the run.
        state: folder for everything that dbt writes.
        project: the dbt project.
        command: dbt's command that parses it.

    Raises:
        ProjectChangedError: it keeps changing.
    """
    kind = f"{inputs.change_seq_from is not None:d}{inputs.kept_from is not None:d}"
    kind += "-rebuild" if inputs.rebuild else ""  # it has schemas of its own
    versions = "-".join(version(package) for package in _PACKAGES)

    def parse(digest: str) -> tuple[Path, object]:
        """The file for the manifest, and the manifest if the file does not exist."""
        file = state / definitions.FOLDER / f"{digest}-{kind}-{versions}.msgpack"
        return file, None if file.exists() else dbtRunner().invoke(command).result

    file, found = definitions.of_unchanged_files(project, inputs.limits, parse)
    if not file.exists():
        if not isinstance(found, Manifest):
            return None  # then it says why it cannot
        file.parent.mkdir(parents=True, exist_ok=True)
        _remove_old(file.parent)
        unfinished = file.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(found.to_msgpack(_write))
        unfinished.replace(file)
    # Read again also where it was parsed just now: dbt compiles into the objects that it is given.
    try:
        kept = Manifest.from_msgpack(file.read_bytes(), decoder=_read)
    except Exception:  # of any kind: the file is damaged, as after a power failure
        file.unlink()
        return None
    kept.build_flat_graph()  # the variable `graph` of macros
    return kept


def _remove_old(folder: Path) -> None:
    """Remove the files of all versions of the project but the newest ones: the published one may be older than others."""
    newest: dict[str, float] = {}
    for file in folder.iterdir():
        version = file.name.partition("-")[0]
        newest[version] = max(newest.get(version, 0.0), file.stat().st_mtime)
    old = sorted(newest, key=lambda version: newest[version])[:-_KEPT]
    for file in folder.iterdir():
        if file.name.partition("-")[0] in old:
            file.unlink()
