"""Java libraries, fetched once into a cache folder with the Ivy that ships inside Spark.

Each `ivy.xml` in the project names one set. A set's folder carries a hash of that file, so a
changed version is a new folder and two checkouts share what they have in common.
`python -m spark_jobs.lake.jars` fetches all sets; jobs only ever read the folder, never the network.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from spark_jobs.settings import PROJECT

SPARK = PROJECT / "spark_jobs" / "ivy.xml"
LINEAGE = PROJECT / "spark_jobs" / "lineage" / "ivy.xml"
ROCKETMQ = PROJECT / "sandbox" / "ivy.xml"


def cache_folder() -> Path:
    """`TRACE_CACHE`, else `$XDG_CACHE_HOME/rocketmq-trace-warehouse`."""
    if path := os.environ.get("TRACE_CACHE"):
        return Path(path)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rocketmq-trace-warehouse"


def java() -> str:
    """The Java launcher: `$JAVA_HOME/bin/java`, else the one on the PATH.

    Raises:
        SystemExit: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if not found:
        sys.exit("Java is missing: install a JDK 17 or 21 (Debian: apt-get install openjdk-17-jdk-headless)")
    return found


def folder(ivy_file: Path) -> Path:
    """Where the set's jars are, or will be."""
    digest = hashlib.sha256(ivy_file.read_bytes()).hexdigest()[:12]
    return cache_folder() / "jars" / f"{ivy_file.parent.name}-{digest}"


def jars(ivy_file: Path) -> list[Path]:
    """The fetched jars of a set, sorted by name.

    Raises:
        FileNotFoundError: the set was not fetched yet.
    """
    found = sorted(folder(ivy_file).glob("*.jar"))
    if not found:
        raise FileNotFoundError(f"no jars in {folder(ivy_file)}: run `make setup`")
    return found


def fetch(ivy_file: Path) -> Path:
    """Download the set unless it is there; returns its folder.

    The folder appears in one rename, so an interrupted download leaves none behind.

    Raises:
        SystemExit: the download failed; the message ends with Ivy's own words.
    """
    target = folder(ivy_file)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        pattern = f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]"
        command = [
            *(java(), "-cp", str(Path(pyspark.__file__).parent / "jars" / "*")),
            *("org.apache.ivy.Main", "-cache", str(cache_folder() / "ivy")),
            *("-ivy", str(ivy_file), "-confs", "default", "-types", "jar", "bundle"),
            *("-retrieve", pattern, "-warn"),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not any(Path(scratch, "jars").glob("*.jar")):
            sys.exit(
                f"could not fetch the jars of {ivy_file.relative_to(PROJECT)}:\n"
                + (done.stdout + done.stderr)[-3000:]
            )
        try:
            Path(scratch, "jars").rename(target)
        except OSError:
            if not target.is_dir():  # another process was first: its folder is the same
                raise
    return target


if __name__ == "__main__":
    for ivy in (SPARK, LINEAGE, ROCKETMQ):
        count = len(list(fetch(ivy).glob("*.jar")))
        print(f"{ivy.relative_to(PROJECT)}: {count} jars in {folder(ivy)}")
