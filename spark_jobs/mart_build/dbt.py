"""Run dbt in this process, on the Spark session of the job."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest

from spark_jobs.mart_build import parsed
from spark_jobs.mart_build.definitions import (
    DBT_PROJECT,
    Definitions,
    file_of,
    known,
    needed_for,
    needed_to_test,
    of_unchanged_files,
)
from spark_jobs.mart_build.inputs import Inputs
from spark_jobs.process import interrupts, jvm
from spark_jobs.process.text_file import replace_text
from spark_jobs.settings import Limits

# What a build leaves out: unit tests say nothing about the data.
NOT_BUILT = ("unit_test",)


@dataclass(frozen=True)
class Node:
    """The result of one model, seed or test: dbt's status, message, seconds and, for a test, the number of failing rows."""

    name: str
    kind: str
    status: str
    message: str
    seconds: float
    failures: int = 0

    @property
    def failed(self) -> bool:
        return self.status in ("error", "fail", "runtime error", "skipped")


@dataclass(frozen=True)
class Build:
    """The result of a dbt command: its nodes, the tables it wrote (`marts.<name>`), and the error that stopped it, if any.

    `refused`: failed integrity checks, which prevent its publication.
    """

    nodes: list[Node]
    tables: list[str]
    seconds: float
    error: str | None = None
    warnings: list[Node] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[Node]:
        return [node for node in self.nodes if node.failed]

    @property
    def passed(self) -> bool:
        return self.error is None and not self.failures and not self.refused


def dbt(
    command: str,
    inputs: Inputs,
    state: Path,
    project: Path = DBT_PROJECT,
    *args: str,
    view_digests: dict[str, str] | None = None,
    only: Collection[str] = (),
    tested: bool = False,
) -> Build:
    """Run a dbt command (`build`, `test`, …) over the project with the inputs as vars.

    Args:
        command: dbt's subcommand.
        inputs: passed as vars.
        state: folder for everything that dbt writes; nothing is written into the project.
        project: the dbt project.
        *args: further options of dbt.
        view_digests: those of `views.digests`; views that are not in it are replaced.
        only: these models, and those without a published table that they are computed from.
        tested: with all data tests that read one of these models, and what only the tests need.

    Raises:
        JvmDiedError: the Spark JVM has died.
    """
    started = time.monotonic()
    common, options = _options(inputs, state, project, view_digests or {})
    parsed_before = manifest(inputs, state, project)
    if only and parsed_before is not None:
        if tested:
            models, tests = needed_to_test(only, parsed_before)
            args += ("--indirect-selection", "empty", "--select", *sorted(models | tests))
        else:
            args += ("--select", *sorted(needed_for(only, parsed_before)))
    result = dbtRunner(parsed_before).invoke([*common, "--populate-cache", command, *options, *args])
    # dbt reports both as failures of its nodes.
    interrupts.raise_if_requested()
    jvm.raise_if_died()
    results = getattr(result.result, "results", None) or []
    nodes, tables = [], []
    for each in results:
        node, kind = each.node, str(each.node.resource_type)
        message, failures = each.message or "", each.failures or 0
        nodes.append(Node(node.name, kind, str(each.status), message, each.execution_time, failures))
        if kind == "model" and node.config.materialized == "audited_table":
            tables.append(f"{node.schema}.{node.alias}")
    # A failed node raises no exception; an exception means that dbt stopped before it ran its nodes.
    error = str(result.exception) if result.exception else None
    if not nodes and error is None and not result.success:
        error = f"dbt {command} ran no node; see {state / 'logs' / 'dbt.log'}"
    return Build(nodes, tables, time.monotonic() - started, error, [n for n in nodes if n.status == "warn"])


def _options(
    inputs: Inputs, state: Path, project: Path, view_digests: dict[str, str]
) -> tuple[list[str], list[str]]:
    """The options of dbt, before and after the command."""
    return (
        # Nothing reads manifest.json and run_results.json, which are megabytes.
        ["--quiet", "--no-write-json", "--log-path", str(state / "logs"), "--log-level-file", "info"],
        [
            *("--project-dir", str(project), "--profiles-dir", str(project)),
            *("--target-path", str(state / "target")),
            *("--vars", json.dumps(inputs.dbt_vars | {"view_digests": view_digests})),
        ],
    )


def manifest(inputs: Inputs, state: Path, project: Path = DBT_PROJECT) -> Manifest | None:
    """The parsed project for this kind of run; None if dbt cannot parse it."""
    common, options = _options(inputs, state, project, {})
    return parsed.manifest(inputs, state, project, [*common, "--no-partial-parse", "parse", *options])


def definitions_in(state: Path) -> Callable[[Path, Limits], Definitions]:
    """`definitions`, as `projects` needs them."""
    return lambda project, limits: definitions(limits, state, project)


def definitions(limits: Limits, state: Path, project: Path = DBT_PROJECT) -> Definitions:
    """What defines the rows of each table; dbt parses the project if it has changed.

    Raises:
        RuntimeError: dbt cannot parse it.
        ProjectChangedError: it keeps changing.
    """
    if (found := known(project, limits, state)) is not None:
        return found

    def parse(digest: str) -> tuple[Path, Definitions]:
        read = manifest(Inputs(0, {}, limits), state, project)
        if read is None:
            raise RuntimeError(f"dbt cannot parse {project}: see {state / 'logs' / 'dbt.log'}")
        return file_of(state, digest), Definitions.of(read, limits)

    file, found = of_unchanged_files(project, limits, parse)
    replace_text(file, found.to_json())
    return found


def build(
    inputs: Inputs, state: Path, project: Path = DBT_PROJECT, view_digests: dict[str, str] | None = None
) -> Build:
    """Run `dbt build` without unit tests: every model, seed and data test, in order of dependency.

    If models have changed (`Inputs.rebuilt`), a second `dbt build` computes all rows of these, after the first one has computed
    what is new of all others.
    """
    common = tuple(option for kind in NOT_BUILT for option in ("--exclude-resource-type", kind))
    if not inputs.rebuilt:
        return dbt("build", inputs, state, project, *common, view_digests=view_digests)
    others = definitions(inputs.limits, state, project).unchanged(inputs.rebuilt)
    # A test that compares rebuilt tables with others waits for the second step.
    cautious = ("--indirect-selection", "cautious")
    first = dbt("build", inputs, state, project, *common, *cautious, view_digests=view_digests, only=others)
    if not first.passed:
        return first
    rest = dbt(
        "build",
        inputs.of_rebuilt,
        state,
        project,
        *common,
        view_digests=view_digests,
        only=inputs.rebuilt,
        tested=True,
    )
    return Build(
        first.nodes + rest.nodes,
        first.tables + rest.tables,
        first.seconds + rest.seconds,
        rest.error,
        first.warnings + rest.warnings,
    )
