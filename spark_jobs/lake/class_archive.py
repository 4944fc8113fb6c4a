"""The classes of Spark and Iceberg as a JVM holds them in memory, so that a driver need not load and verify each anew.

A class data archive (the JDK's AppCDS) of the driver's own class path: `archive_classes` writes it, `make setup` runs
that, and `session` names it to every driver. An archive is of one JVM and one class path: its name stands for both.
Where it is missing, classes are loaded the long way.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pyspark

from spark_jobs.lake import jars

NAME = "spark-classes-{}.jsa"
# What an archive cannot hold, or that it is of other jars after all, is no news to the user.
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def archive() -> Path:
    """Where the archive for this JVM and these jars is, or will be: it belongs to the Python environment."""
    files = [
        Path(jars.java()).resolve(),
        *sorted(Path(pyspark.__file__).parent.glob("jars/*.jar")),
        *jars.jars(jars.SPARK),
    ]
    told = [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    return Path(sys.prefix, "share", NAME.format(hashlib.sha256("\n".join(told).encode()).hexdigest()[:12]))


def options() -> str:
    """What a driver's JVM is told; nothing where there is no archive."""
    path = archive()
    return f"-XX:SharedArchiveFile={path} {QUIET}" if path.exists() else ""
