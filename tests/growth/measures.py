"""What a `make up` holds: files and snapshots of the tables, Airflow's rows, logs, and memory of its processes."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
from pyiceberg.catalog import Catalog
from pyiceberg.typedef import Identifier
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

from deploy.airflow_cleanup import TABLES
from deploy.up import State
from spark_jobs.lake.catalog import lake
from spark_jobs.settings import Settings

MB = 1024**2
ROTATED = "rotated logs, MB"  # of components, Superset and dbt
METADATA_FILES, MANIFESTS = "metadata.json files of a table, at most", "manifests"


def measures(settings: Settings) -> dict[str, float]:
    """Each measure with its name and unit; those of the tables are sums over all tables."""
    return {
        **_of_tables(settings),
        **_of_files(settings.home),
        **_of_airflow(settings.home / "airflow"),
        **_of_processes(State(settings)),
    }


def _of_tables(settings: Settings) -> dict[str, float]:
    """By pyiceberg. Data files are counted per partition: a week of real time has more partitions, not fuller ones."""
    catalog = lake(settings)
    found: Counter[str] = Counter()
    for namespace in catalog.list_namespaces():
        for name in catalog.list_tables(namespace):
            of_table = _of_table(catalog, name)
            most = max(found.pop(METADATA_FILES, 0), of_table.pop(METADATA_FILES))
            found.update(of_table)
            found[METADATA_FILES] = most
    per_partition = found.pop("data files") / max(found.pop("partitions"), 1)
    return {**found, "data files per partition": per_partition}


@retry(
    retry=retry_if_exception_type(FileNotFoundError),
    stop=stop_after_attempt(5),
    wait=wait_fixed(1),
    reraise=True,
)
def _of_table(catalog: Catalog, name: Identifier) -> dict[str, int]:
    """A commit may replace the table's metadata, or maintenance remove it, while it is read: then it is read again."""
    table = catalog.load_table(name)
    found = dict.fromkeys(("snapshots", MANIFESTS, "data files", "delete files", "partitions"), 0)
    found["snapshots"] = len(table.snapshots())
    parts = table.metadata.schemas, table.metadata.partition_specs, table.metadata.statistics
    found["schemas, partition specs, statistics"] = sum(map(len, parts))
    # Of a commit that lost, a file is left until maintenance removes it as an orphan, after days of real time.
    found[METADATA_FILES] = len(table.metadata.metadata_log) + 1
    snapshot = table.current_snapshot()
    if snapshot is None or not snapshot.manifests(table.io):
        return found
    found[MANIFESTS] = table.inspect.manifests().num_rows
    files = table.inspect.files()
    found["delete files"] = sum(content != 0 for content in files["content"].to_pylist())
    found["data files"] = files.num_rows - found["delete files"]
    found["partitions"] = len({str(each) for each in files["partition"].to_pylist()})
    return found


def _of_files(home: Path) -> dict[str, float]:
    warehouse = list(_files(home / "warehouse"))
    avro = [path for path in warehouse if path.suffix == ".avro"]
    logs, tasks = [path for path in _files(home) if ".log" in path.name], home / "airflow" / "logs"
    return {
        "files of manifests and their lists": len(avro),
        "manifests and their lists, MB": _size(avro) / MB,
        "serving files": sum(1 for _ in _files(home / "serving")),
        "logs of tasks, MB": _size(path for path in logs if tasks in path.parents) / MB,
        ROTATED: _size(path for path in logs if tasks not in path.parents) / MB,
        "other files": sum(
            1 for path in _files(home) if ".log" not in path.name and home / "warehouse" not in path.parents
        ),
    }


def _of_airflow(home: Path) -> dict[str, float]:
    with closing(sqlite3.connect(f"file:{home / 'airflow.db'}?mode=ro", uri=True, timeout=60)) as database:
        rows = [database.execute(f"select count(*) from {table}").fetchone()[0] for table in TABLES]
        triggers = database.execute("select count(*) from trigger").fetchone()[0]
    return {
        "Airflow's rows": sum(rows) + triggers,
        "Airflow's database, MB": (home / "airflow.db").stat().st_size / MB,
    }


def _of_processes(state: State) -> dict[str, float]:
    """Resident set size of each component with its children, without the tasks that run just now.

    What processes share counts for each: pages that a fork copies later, as those of the triggerer, are no growth.
    """
    found = {}
    for name, component in state.read()["components"].items():
        with suppress(psutil.Error):
            found[f"memory of {name}, MB"] = _memory_without_tasks(psutil.Process(component["pid"])) / MB
    supervisor = state.supervisor()
    assert supervisor is not None, "make up has ended"
    found["memory of the supervisor, MB"] = psutil.Process(supervisor).memory_info().rss / MB
    return found


def _memory_without_tasks(process: psutil.Process) -> int:
    """Of a process and those that it started, but for the workers of Airflow, which run the tasks."""
    with suppress(psutil.Error):
        if "airflow worker" not in " ".join(process.cmdline()):
            own: int = process.memory_info().rss
            return own + sum(map(_memory_without_tasks, process.children()))
    return 0


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        with suppress(OSError):
            if path.is_file() and not path.is_symlink():
                yield path


def _size(paths: Iterable[Path]) -> int:
    size = 0
    for path in paths:
        with suppress(OSError):
            size += path.stat().st_size
    return size
