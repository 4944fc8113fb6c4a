"""What defines the rows of each table of the marts: if it changes, the table and all that are computed from it are rebuilt.

That is, of a model: its SQL, the macros that it calls, its columns and config, and the limits that these name; of a seed: its
rows; and all of this of the models and seeds that it reads. Comments, descriptions, tests and exposures do not count. dbt finds
the dependencies in a full refresh, which has only those that decide values: in an incremental run there are others, which say
what rows are computed. What it found is kept in a file, so that jobs without dbt can read it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spark_jobs.settings import PROJECT, Limits

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

T = TypeVar("T")
DBT_PROJECT = PROJECT / "dbt_project"
FOLDER = "parsed"  # below the folder for everything that dbt writes
ATTEMPTS = 3
# The limits that the models use; the others belong to the decoder.
MODEL_LIMITS = (
    "grace_seconds",
    "consume_timeout_seconds",
    "retry_horizon_seconds",
    "max_delay_seconds",
    "expected_group_lookback_days",
    "backlog_seconds",
    "offsets_lag_seconds",
    "max_retry_times",
)
# What exists during a run only, so that a rebuild computes it again.
UNPUBLISHED = ("working_table", "ephemeral")
_CONFIG = (
    "materialized",
    "schema",
    "partition_by",
    "replaces",
    "set",
    "message_key",
    "sorted_by",
    "row_group_bytes",
    "only_in",
)
# Strings are found, too, so that comment marks in them are no comments.
_TOKENS = re.compile(r"\{#.*?#\}|--[^\n]*|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\s+", re.DOTALL)


class ProjectChangedError(RuntimeError):
    """Files of the dbt project changed while it was in use; nothing was published."""


def plain(sql: str) -> str:
    """SQL and Jinja without comments, and with single spaces."""

    def of(token: re.Match[str]) -> str:
        text = token.group()
        return " " if text.isspace() or text.startswith(("{#", "--")) else text

    return " ".join(_TOKENS.sub(of, sql).split())


@dataclass(frozen=True)
class Node:
    """A model or a seed.

    Attributes:
        name: its name.
        materialized: `audited_table`, `working_table`, `stable_view`, `ephemeral` or `seed`.
        digest: of what defines it alone.
        upstream: the names of the models and seeds that it reads.
        table: of an audited table, its name without the catalog.
    """

    name: str
    materialized: str
    digest: str
    upstream: tuple[str, ...] = ()
    table: str | None = None


@dataclass(frozen=True)
class Definitions:
    """The models and seeds of a project, for certain limits."""

    nodes: dict[str, Node]

    @classmethod
    def of(cls, manifest: Manifest, limits: Limits) -> Definitions:
        """Those of the parsed project."""
        macros = {
            uid: each
            for uid, each in manifest.macros.items()
            if each.package_name == manifest.metadata.project_name
        }
        texts = {uid: plain(each.macro_sql) for uid, each in macros.items()}

        def called(uid: str) -> set[str]:
            return set(macros[uid].depends_on.macros) & macros.keys()

        found: dict[str, Node] = {}
        for node in manifest.nodes.values():
            if node.resource_type == "seed":
                found[node.name] = Node(node.name, "seed", node.checksum.checksum[:16])
            if node.resource_type != "model":
                continue
            config: Any = node.config
            own = {
                uid
                for uid, each in macros.items()
                if each.name.startswith(f"materialization_{config.materialized}_")
            }
            of_macros = closure((set(node.depends_on.macros) & macros.keys()) | own, called)
            text = "\0".join([plain(node.raw_code), *(texts[uid] for uid in sorted(of_macros))])
            columns = [(column.name, column.data_type) for column in node.columns.values()]
            given = {key: config.get(key) for key in _CONFIG}
            parts = [text, json.dumps([columns, given], sort_keys=True), *_limits_in(text, limits)]
            found[node.name] = Node(
                node.name,
                config.materialized,
                _digest("\0".join(parts)),
                tuple(sorted(_read_by(node))),
                f"{node.schema}.{node.alias}" if config.materialized == "audited_table" else None,
            )
        return cls(found)

    def to_json(self) -> str:
        return json.dumps([asdict(node) for node in self.nodes.values()])

    @classmethod
    def from_json(cls, text: str) -> Definitions:
        nodes = [Node(**row | {"upstream": tuple(row["upstream"])}) for row in json.loads(text)]
        return cls({node.name: node for node in nodes})

    @cached_property
    def tables(self) -> dict[str, str]:
        """Each audited table (`marts.<name>`, `intermediate.<name>`) to the digest of all that defines it."""
        digests: dict[str, str] = {}

        def of(name: str) -> str:
            if name not in digests:
                node = self.nodes[name]
                digests[name] = _digest("\0".join([node.digest, *map(of, node.upstream)]))
            return digests[name]

        return {node.table: of(node.name) for node in self.nodes.values() if node.table}

    @cached_property
    def digest(self) -> str:
        """Of all tables together."""
        return _digest(json.dumps(self.tables, sort_keys=True))

    def changed(self, published: Mapping[str, str]) -> set[str]:
        """The models of the audited tables that are new, or whose digest is another one; with all that are computed from them.

        Args:
            published: table to the digest of all that defined its published rows.
        """
        return {
            node.name
            for node in self.nodes.values()
            if node.table and published.get(node.table) != self.tables[node.table]
        }

    def unchanged(self, rebuilt: Collection[str]) -> set[str]:
        """The audited tables but those, and all seeds and views."""
        lasting = {name for name, node in self.nodes.items() if node.materialized not in UNPUBLISHED}
        return lasting - set(rebuilt)


def needed_for(names: Collection[str], manifest: Manifest) -> set[str]:
    """The models, and those without a published table that they are computed from in the run that the manifest is for."""
    models: dict[str, Any] = {
        node.name: node for node in manifest.nodes.values() if node.resource_type == "model"
    }
    for_one_run = {name for name, node in models.items() if node.config.materialized in UNPUBLISHED}

    def unpublished(name: str) -> set[str]:
        return _read_by(models[name]) & for_one_run if name in models else set()  # a seed reads nothing

    return closure(set(names), unpublished)


def needed_to_test(names: Collection[str], manifest: Manifest) -> tuple[set[str], set[str]]:
    """The models and the data tests of a run that computes all rows of these models.

    The tests are those that read one of the models. Other models that they read have published rows, or are computed for them,
    and for these there are their own tests.
    """
    tests = {node.name: _read_by(node) for node in manifest.nodes.values() if node.resource_type == "test"}
    of_names = {test: read for test, read in tests.items() if not read.isdisjoint(names)}
    for_one_run = {
        node.name
        for node in manifest.nodes.values()
        if node.resource_type == "model" and node.config.materialized in UNPUBLISHED
    }
    needed = needed_for({*names} | (set().union(*of_names.values()) & for_one_run), manifest)
    return needed, of_names.keys() | {test for test, read in tests.items() if read <= needed}


def in_order(names: Collection[str], manifest: Manifest) -> list[str]:
    """The models among these, each after those that it is computed from."""
    models = {node.name: node for node in manifest.nodes.values() if node.resource_type == "model"}
    graph = {name: _read_by(node) for name, node in models.items()}
    return [name for name in TopologicalSorter(graph).static_order() if name in models and name in names]


def _read_by(node: Any) -> set[str]:
    """The models and seeds that a model reads."""
    return {uid.rpartition(".")[2] for uid in node.depends_on.nodes if uid.startswith(("model.", "seed."))}


def closure(names: set[str], following: Callable[[str], set[str]]) -> set[str]:
    """The names, those that follow them, and so on."""
    found, left = set(names), list(names)
    while left:
        new = following(left.pop()) - found
        found |= new
        left += new
    return found


def known(project: Path, limits: Limits, state: Path) -> Definitions | None:
    """The definitions of the project as it is now; None if dbt has not parsed it yet (`dbt.definitions`).

    Args:
        project: the dbt project.
        limits: the limits of the definitions.
        state: folder for everything that dbt writes.
    """
    try:
        return Definitions.from_json(file_of(state, digest_of_files(project, limits)).read_text())
    except (FileNotFoundError, ValueError):
        return None


def known_in(state: Path) -> Callable[[Path, Limits], Definitions | None]:
    """`known`, as `projects` needs it."""
    return lambda project, limits: known(project, limits, state)


def of_unchanged_files(project: Path, limits: Limits, read: Callable[[str], T]) -> T:
    """What `read` returns for files of the project that did not change meanwhile; it gets their digest.

    Raises:
        ProjectChangedError: they keep changing.
    """
    for _ in range(ATTEMPTS):
        digest = digest_of_files(project, limits)
        found = read(digest)
        if digest_of_files(project, limits) == digest:
            return found
    raise ProjectChangedError(
        f"{project} changes while dbt parses it: run the job again when its files are complete"
    )


def file_of(state: Path, digest: str) -> Path:
    """Where the definitions of files with this digest are kept."""
    return state / FOLDER / f"{digest}-definitions.json"


def digest_of_files(project: Path, limits: Limits) -> str:
    """A digest of the files of the dbt project, with all that does not define rows, and of the limits."""
    found = hashlib.sha256(json.dumps(model_limits(limits)).encode())
    for file in files_of(project):
        found.update(f"\0{file.relative_to(project)}\0".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def files_of(project: Path) -> list[Path]:
    """The files that dbt reads."""
    # `dbt compile` and similar commands write SQL files into target/.
    written_by_dbt = ("target", "logs", "dbt_packages")
    return [
        file
        for file in sorted(project.rglob("*.*"))
        if file.suffix in (".sql", ".csv", ".yml")
        and file.relative_to(project).parts[0] not in written_by_dbt
    ]


def model_limits(limits: Limits) -> dict[str, int]:
    return {name: getattr(limits, name) for name in MODEL_LIMITS}


def _limits_in(text: str, limits: Limits) -> Iterator[str]:
    """The limits that the text names; `limit('grace')` reads the var `grace_seconds`."""
    words = set(re.findall(r"\w+", text))
    for name in MODEL_LIMITS:
        if name in words or name.removesuffix("_seconds") in words:
            yield f"{name}={getattr(limits, name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
