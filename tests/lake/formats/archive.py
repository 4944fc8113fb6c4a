"""Small lakes of each lake format: `format-<number>.tar.gz`, which name no path of the machine that wrote them.

An archive holds the folder `warehouse`, whose files name each other below `ROOT`, and `lake.json`:

    {"properties": {<of the namespace ops>}, "tables": {"raw.trace_messages": <metadata file>, …}, "views": {…},
     "rows": {"raw.trace_messages": 120, …}}

Iceberg's procedure `rewrite_table_path` replaces the paths, in both directions. It reads the files of the source, which
Hadoop's ViewFs mounts at `ROOT`, wherever the archive was unpacked.
"""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession
from sqlalchemy import text

from spark_jobs.lake.catalog import lake
from spark_jobs.lake.lake_format import PROPERTY
from spark_jobs.lake.tables import NAMESPACES
from spark_jobs.settings import CATALOG, Settings

ROOT = "viewfs://lake/warehouse"
_UNPACKED = "unpacked"  # the catalog that reads an archive


def archive_of(number: int) -> Path:
    return Path(__file__).with_name(f"format-{number}.tar.gz")


def pack(spark: SparkSession, settings: Settings, number: int, work: Path) -> dict[str, Any]:
    """Write the archive of a lake whose warehouse is a local folder.

    Args:
        spark: session of the lake.
        settings: of the lake.
        number: the lake's format.
        work: an empty folder for the files of the archive.

    Returns:
        The content of `lake.json`.
    """
    source, target = settings.warehouse_uri, work / "warehouse"
    catalog = lake(settings)
    found: dict[str, Any] = {"tables": {}, "views": {}, "rows": {}}
    found["properties"] = {k: v for k, v in catalog.load_namespace_properties("ops").items() if k == PROPERTY}
    for kind, name, file in _entries(catalog):
        if kind == "VIEW":
            found["views"][name] = _copy_view(file, source, ROOT, target)
        else:
            found["tables"][name] = _copy_table(spark, f"{CATALOG}.{name}", source, ROOT, target)
            found["rows"][name] = spark.table(f"{CATALOG}.{name}").count()
    (work / "lake.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    with tarfile.open(archive_of(number), "w:gz") as archive:
        for name in ("lake.json", "warehouse"):
            archive.add(work / name, name, filter=_without_owner)
    return found


def restore(spark: SparkSession, settings: Settings, number: int, work: Path) -> dict[str, Any]:
    """Make the lake of an archive that of the settings, which hold none yet.

    Args:
        spark: session of the settings' catalog.
        settings: where the lake is to be.
        number: the archive's format.
        work: an empty folder for the files of the archive.

    Returns:
        The content of `lake.json`.
    """
    with tarfile.open(archive_of(number)) as archive:
        archive.extractall(work, filter="data")
    found: dict[str, Any] = json.loads((work / "lake.json").read_text())
    spark.conf.set("fs.viewfs.mounttable.lake.link./warehouse", f"file://{work}/warehouse")
    unpacked = f"spark.sql.catalog.{_UNPACKED}"
    spark.conf.set(unpacked, "org.apache.iceberg.spark.SparkCatalog")
    for key, value in {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{work}/unpacked.db",
        "warehouse": ROOT,
        "jdbc.schema-version": "V1",
    }.items():
        spark.conf.set(f"{unpacked}.{key}", value)
    catalog = lake(settings)
    target = settings.warehouse_uri
    for namespace in NAMESPACES:
        spark.sql(f"create namespace {_UNPACKED}.{namespace}")
        spark.sql(f"create namespace if not exists {CATALOG}.{namespace}")
    catalog.update_namespace_properties("ops", updates=found["properties"])
    for name, file in found["tables"].items():
        spark.sql(f"call {_UNPACKED}.system.register_table('{name}', '{file}')")
        file = _copy_table(spark, f"{_UNPACKED}.{name}", ROOT, target, Path(target.removeprefix("file:")))
        spark.sql(f"call {CATALOG}.system.register_table('{name}', '{file}')")
    for name, file in found["views"].items():
        local = work / file.removeprefix(f"{ROOT.removesuffix('warehouse')}")
        _register_view(
            catalog, name, _copy_view(str(local), ROOT, target, Path(target.removeprefix("file:")))
        )
    return found


def _copy_table(spark: SparkSession, table: str, source: str, target: str, folder: Path) -> str:
    """Copy a table's files to a folder with the paths of the target; return the location of the new metadata file."""
    catalog, _, name = table.partition(".")
    done = spark.sql(
        f"call {catalog}.system.rewrite_table_path(table => '{table}', "
        f"source_prefix => '{source}', target_prefix => '{target}')"
    ).collect()[0]
    for part in spark.read.text(done.file_list_location).collect():
        written, wanted = next(csv.reader([part.value]))
        file = folder / wanted.removeprefix(f"{target}/")
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_local(spark, written), file)
    metadata = f"{name.replace('.', '/')}/metadata/{done.latest_version}"
    return f"{target}/{metadata}"


def _copy_view(file: str, source: str, target: str, folder: Path) -> str:
    """As `_copy_table`: the metadata file of a view names the view's location, and no other file."""
    local = Path(file.removeprefix("file:"))
    open_text = gzip.open if local.name.endswith(".gz.metadata.json") else open
    with open_text(local, "rt") as original:
        metadata = original.read().replace(source, target)
    new = folder / Path(*local.parts[-4:])
    new.parent.mkdir(parents=True, exist_ok=True)
    with open_text(new, "wt") as copy:
        copy.write(metadata)
    return f"{target}/{'/'.join(local.parts[-4:])}"


def _local(spark: SparkSession, location: str) -> str:
    return location.removeprefix("file:").replace(
        ROOT, spark.conf.get("fs.viewfs.mounttable.lake.link./warehouse", "").removeprefix("file:")
    )


def _entries(catalog: Catalog) -> list[tuple[str, str, str]]:
    """Kind (TABLE or VIEW), name and metadata file of each table and view."""
    assert isinstance(catalog, SqlCatalog)
    with catalog.engine.connect() as database:
        rows = database.execute(
            text(
                "select iceberg_type, table_namespace || '.' || table_name, metadata_location "
                "from iceberg_tables order by 2"
            )
        )
        return [(kind, name, file) for kind, name, file in rows]


def _register_view(catalog: Catalog, name: str, file: str) -> None:
    """Insert the row that creating the view would write: Iceberg registers tables only."""
    assert isinstance(catalog, SqlCatalog)
    namespace, _, view = name.partition(".")
    with catalog.engine.begin() as database:
        database.execute(
            text("insert into iceberg_tables values (:catalog, :namespace, :view, :file, null, 'VIEW')"),
            {"catalog": CATALOG, "namespace": namespace, "view": view, "file": file},
        )


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
