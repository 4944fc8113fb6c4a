"""Download Java libraries into a cache folder, with the Ivy that is part of Spark.

An `ivy.xml` defines a set of jars; `ivy.sha256` beside it has their SHA-256 checksums, which are verified after the
download. The name of a set's folder contains a hash of `ivy.xml`, so a changed version gets a new folder, and checkouts
with the same `ivy.xml` share one. `python -m spark_jobs.lake.jars [IVY_FILE ...]` fetches the sets of production, that of
S3 only where the settings have a warehouse there, and the given ones; jobs only read the folders. With
`--write-checksums`, to be used after a change of an `ivy.xml`, it writes the checksums instead of verifying them.

Downloads trust the certificates of Java's trust store. On Debian that contains the system's certificates; elsewhere, behind
a company's CA, name a store: `JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=/path/to/cacerts`.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from spark_jobs.settings import PROJECT, load_settings
from spark_jobs.settings_error import SettingsError

SPARK = PROJECT / "spark_jobs" / "ivy.xml"
LINEAGE = PROJECT / "spark_jobs" / "lineage" / "ivy.xml"
S3 = PROJECT / "spark_jobs" / "s3" / "ivy.xml"  # fetched where the settings have a warehouse on S3


class MissingJarsError(SettingsError):
    """A set of jars that the settings ask for was not downloaded; the message names the command that does it."""


def spark_home() -> Path:
    """The folder of pyspark, with Spark's jars and scripts; pyspark is not imported.

    Raises:
        ImportError: pyspark is not installed.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ImportError("pyspark is not installed in this Python environment: run `make setup`")
    return Path(found.origin).parent


def cache_folder() -> Path:
    """`TRACE_CACHE`, else `$XDG_CACHE_HOME/rocketmq-trace-warehouse`."""
    if path := os.environ.get("TRACE_CACHE"):
        return Path(path)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rocketmq-trace-warehouse"


def java() -> str:
    """The Java launcher: `$JAVA_HOME/bin/java`, else the one on the PATH.

    Raises:
        SystemExit: Java is not installed.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if not found:
        sys.exit("Java is missing: install a JDK 17 or 21 (Debian: apt-get install openjdk-17-jdk-headless)")
    return found


def folder(ivy_file: Path) -> Path:
    """The folder of a set's jars; it may not exist yet."""
    digest = hashlib.sha256(ivy_file.read_bytes()).hexdigest()[:12]
    return cache_folder() / "jars" / f"{ivy_file.parent.name}-{digest}"


def jars(ivy_file: Path) -> list[Path]:
    """The jars of a set, sorted by name.

    Raises:
        MissingJarsError: the set was not downloaded yet.
    """
    found = sorted(folder(ivy_file).glob("*.jar"))
    if not found:
        raise MissingJarsError(
            f"the jars of {_name(ivy_file)} are not in {folder(ivy_file)}: run `make setup` with the same settings"
        )
    return found


def checksums(files: list[Path]) -> dict[str, str]:
    """File name to SHA-256 in hexadecimal."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def expected_checksums(ivy_file: Path) -> dict[str, str]:
    """The committed checksums of a set: lines `<sha256>  <file name>`, as `sha256sum` writes them."""
    lines = ivy_file.with_suffix(".sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def fetch(ivy_file: Path, verify: bool = True) -> Path:
    """Download the set unless it exists; return its folder.

    One process downloads at a time: two Ivy processes on one empty cache break each other's downloads. The folder is
    created by a rename, so an interrupted download leaves none behind.

    Raises:
        SystemExit: the download failed (the message ends with Ivy's output), or a jar has a different checksum.
    """
    target = folder(ivy_file)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time():
        if target.is_dir():  # another process has downloaded it
            return target
        _show(f"set-up: fetching the jars of {_name(ivy_file)}")
        started = time.monotonic()
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            pattern = f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]"
            command = [
                *(java(), "-cp", str(spark_home() / "jars" / "*")),
                *("org.apache.ivy.Main", "-cache", str(cache_folder() / "ivy")),
                *("-ivy", str(ivy_file), "-confs", "default", "-types", "jar", "bundle"),
                *("-retrieve", pattern),
            ]
            lines = []
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as ivy:
                for line in ivy.stdout or ():
                    lines.append(line)
                    # found organisation#module;revision in central
                    # [SUCCESSFUL ] organisation#module;revision!file.jar (12ms)
                    if line.lstrip().startswith("found "):
                        _show(f"  {line.split()[1].rpartition('#')[2].replace(';', ' ')} resolved")
                    elif "[SUCCESSFUL ]" in line:
                        _show(f"  {line.rpartition('!')[2].strip()}")
            found = sorted(Path(scratch, "jars").glob("*.jar"))
            if ivy.returncode or not found:
                sys.exit(f"could not fetch the jars of {_name(ivy_file)}:\n" + "".join(lines)[-3000:])
            if verify:
                _verify(ivy_file, found)
            Path(scratch, "jars").rename(target)
        _show(f"set-up: fetched {len(found)} jars in {time.monotonic() - started:.0f} s")
    return target


def _show(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    with (cache_folder() / "jars.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _show("set-up: waiting for another process that fetches jars")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _verify(ivy_file: Path, found: list[Path]) -> None:
    expected, actual = expected_checksums(ivy_file), checksums(found)
    wrong = [
        f"{name}: expected {expected.get(name, 'no such jar')}, found {actual.get(name, 'no such jar')}"
        for name in sorted(expected.keys() | actual.keys())
        if expected.get(name) != actual.get(name)
    ]
    if wrong:
        sys.exit(
            f"the jars of {_name(ivy_file)} do not have the checksums in {_name(ivy_file.with_suffix('.sha256'))}. "
            f"Nothing was installed: delete {cache_folder() / 'ivy'} and run `make setup` again; if it happens again, the "
            "repository serves different files\n" + "\n".join(wrong)
        )


def _name(file: Path) -> str:
    return str(file.relative_to(PROJECT) if file.is_relative_to(PROJECT) else file)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Fetch the Java libraries of production and of the given sets."
    )
    parser.add_argument(
        "ivy_files", nargs="*", type=Path, metavar="IVY_FILE", help="ivy.xml of a further set"
    )
    parser.add_argument("--write-checksums", action="store_true", help="write ivy.sha256 of the sets")
    args = parser.parse_args()
    of_settings = [S3] if load_settings().warehouse.is_s3 else []
    for ivy_file in (SPARK, LINEAGE, *of_settings, *(file.resolve() for file in args.ivy_files)):
        found = sorted(fetch(ivy_file, verify=not args.write_checksums).glob("*.jar"))
        if args.write_checksums:
            lines = (f"{digest}  {name}\n" for name, digest in checksums(found).items())
            ivy_file.with_suffix(".sha256").write_text("".join(lines))
        print(f"{_name(ivy_file)}: {len(found)} jars in {folder(ivy_file)}")


if __name__ == "__main__":
    main()
