"""The class data sharing archive (AppCDS of the JDK) of Spark and Iceberg: a driver that uses it starts faster.

The job `archive_classes` writes it (`make setup`), and `session` passes it to every driver. An archive is valid for one
JVM and one class path; its name contains a hash of both. Without it the JVM loads and verifies each class.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from spark_jobs.lake import jars

NAME = "spark-classes-{}.jsa"
# Do not log classes that cannot be archived, or that the archive does not match.
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def archive() -> Path:
    """The path of the archive for this JVM and these jars, inside the Python environment; it may not exist yet."""
    files = [
        Path(jars.java()).resolve(),
        *sorted(jars.spark_home().glob("jars/*.jar")),
        *jars.jars(jars.SPARK),
    ]
    versions = [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    return Path(
        sys.prefix, "share", NAME.format(hashlib.sha256("\n".join(versions).encode()).hexdigest()[:12])
    )


def options() -> str:
    """The JVM options that use the archive; empty if it does not exist."""
    path = archive()
    return f"-XX:SharedArchiveFile={path} {QUIET}" if path.exists() else ""
