"""`python -m spark_jobs.backup.relocate`: rewrite the paths of a lake whose files were copied to another folder.

Tables are rewritten by Iceberg's procedure `rewrite_table_path`, which reads the files at their old paths. These need not
exist any more: Hadoop's ViewFileSystemOverloadScheme mounts the new folder at the old path, for this process only, which
is therefore one of its own.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.backup.contents import tables_of
from spark_jobs.lake import identity
from spark_jobs.lake.deployment import catalog_address, submit_conf
from spark_jobs.settings import CATALOG, Settings

SCRATCH = "relocate-"  # what the folder below the home begins with
_VIEWFS = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
_MOUNTS = "spark.hadoop.fs.viewfs.mounttable.default"


def relocate(settings: Settings, catalog: Path, old: Path, new: Path) -> None:
    """Rewrite the tables and views of a catalog file, whose files are below `new`.

    Args:
        settings: of the new lake.
        catalog: the catalog file; its rows and the lake's identity are changed at the end, in one transaction.
        old: the folder that the tables name.
        new: the folder that has their files.
    """
    tables = tables_of(catalog)
    with tempfile.TemporaryDirectory(dir=settings.home, prefix=SCRATCH) as scratch:
        staged = Path(scratch)
        shutil.copyfile(catalog, staged / "source.db")
        spark = _session(settings, staged / "source.db", old, new)
        for table in tables:
            if table.is_view:
                _rewrite_view(new / Path(table.metadata).relative_to(old), str(old), str(new))
            else:
                _rewrite_table(spark, table.name, old, new, staged)
        spark.stop()
    _rewrite_catalog(settings, catalog, str(old), str(new))


def _session(settings: Settings, source: Path, old: Path, new: Path) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = submit_conf(settings) | {
        "spark.master": "local[2]",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.hadoop.fs.file.impl": _VIEWFS,
        "spark.hadoop.fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        f"{_MOUNTS}.link.{old}": f"file://{new}",
        f"{_MOUNTS}.linkFallback": "file:///",
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "jdbc",
        f"spark.sql.catalog.{CATALOG}.uri": f"jdbc:sqlite:{source}",
        f"spark.sql.catalog.{CATALOG}.warehouse": f"file:{old}",
        f"spark.sql.catalog.{CATALOG}.jdbc.schema-version": "V1",
    }
    return SparkSession.builder.appName("relocate").config(map={**conf}).getOrCreate()


def _rewrite_table(spark: SparkSession, name: str, old: Path, new: Path, scratch: Path) -> None:
    staging = scratch / name
    done = spark.sql(
        f"call {CATALOG}.system.rewrite_table_path(table => '{name}', source_prefix => 'file:{old}', "
        f"target_prefix => 'file:{new}', staging_location => 'file:{staging}/')"
    ).collect()[0]
    for row in spark.read.text(done.file_list_location).collect():
        written, wanted = (Path(each.removeprefix("file:")) for each in next(csv.reader([row.value])))
        if written.is_relative_to(staging):  # data files are at their place already
            shutil.move(written, wanted)  # the warehouse may be on another file system than the home


def _rewrite_view(file: Path, old: str, new: str) -> None:
    """The metadata file of a view names the view's location, and no other file."""
    open_text = gzip.open if file.name.endswith(".gz.metadata.json") else open
    with open_text(file, "rt") as original:
        text = original.read()
    with open_text(file, "wt") as rewritten:
        rewritten.write(text.replace(f"{old}/", f"{new}/"))


def _rewrite_catalog(settings: Settings, catalog: Path, old: str, new: str) -> None:
    with closing(sqlite3.connect(catalog)) as database, database:
        for column in ("metadata_location", "previous_metadata_location"):
            database.execute(
                f"update iceberg_tables set {column} = replace({column}, :old, :new) where {column} is not null",
                {"old": f"{old}/", "new": f"{new}/"},
            )
        ((text,),) = database.execute(
            "select property_value from iceberg_namespace_properties where namespace = ? and property_key = ?",
            (identity.NAMESPACE, identity.PROPERTY),
        ).fetchall()
        moved = json.loads(text) | {"catalog": catalog_address(settings), "warehouse": settings.warehouse_uri}
        database.execute(
            "update iceberg_namespace_properties set property_value = ? where namespace = ? and property_key = ?",
            (json.dumps(moved), identity.NAMESPACE, identity.PROPERTY),
        )


def _end_with_the_starter() -> None:
    """Exit when the standard input ends, as it does when the starting process ends, even by SIGKILL."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def main() -> None:
    threading.Thread(target=_end_with_the_starter, daemon=True).start()
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("catalog", "old", "new"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    args = parser.parse_args()
    relocate(Settings(), args.catalog, args.old, args.new)


if __name__ == "__main__":
    main()
