"""The package `rocketmq-client-python` with a real `librocketmq`, for tests, benchmarks and the sandbox.

The package contains no library. The wheel `rocketmq` 0.4.4 on the same index has one, which lacks 4 of the 70 functions that
the package looks up; `librocketmq/shim.c` has these. Both are fetched from the package index as set-up does, with committed
checksums, into the cache of the Java libraries.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.lake import jars
from spark_jobs.settings import PROJECT

PACKAGE_LOCK = PROJECT / "spark_jobs" / "rocketmq" / "librocketmq" / "requirements.lock"
HERE = Path(__file__).with_name("librocketmq")
LIBRARY_LOCK, SHIM = HERE / "requirements.lock", HERE / "shim.c"
_INPUTS = (PACKAGE_LOCK, LIBRARY_LOCK, SHIM, Path(__file__))
_PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


class NoLibraryError(Exception):
    """The library cannot be had on this machine; the message says why."""


def fetch() -> Path:
    """The folder to import the package from; it is made if it is missing.

    Raises:
        NoLibraryError: another platform, no C compiler, or the packages cannot be fetched.
    """
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in _INPUTS)).hexdigest()[:12]
    target = jars.cache_folder() / f"librocketmq-{digest}"
    if (target / "package").is_dir():
        return target / "package"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise NoLibraryError("the wheel rocketmq 0.4.4 has a library for Linux on x86-64 only")
    if (compiler := shutil.which("cc")) is None:
        raise NoLibraryError("there is no C compiler for the shim: install one (Debian: apt-get install gcc)")
    target.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(target.parent), tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        if not target.is_dir():  # another process may have made it
            made = Path(scratch) / "made"
            try:
                _make(Path(scratch), made, compiler)
            except subprocess.CalledProcessError as error:
                said = (error.stderr or b"").decode(errors="replace").strip()[-500:]
                raise NoLibraryError(f"{Path(error.cmd[0]).name} failed: {said}") from None
            made.rename(target)
    return target / "package"


def environment(package: Path) -> dict[str, str]:
    """The environment of a process that imports the package."""
    paths = [str(PROJECT), str(package), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _make(scratch: Path, made: Path, compiler: str) -> None:
    venv.create(scratch / "venv", with_pip=True)
    pip = [str(scratch / "venv" / "bin" / "python"), *_PIP]
    locked = ["--no-deps", "--require-hashes", "--requirement"]
    _run(*pip, "install", "--target", str(made / "package"), *locked, str(PACKAGE_LOCK))
    wheels = scratch / "wheels"
    _run(*pip, "download", "--only-binary", ":all:", "--dest", str(wheels), *locked, str(LIBRARY_LOCK))
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(scratch / "wheel")
    library = made / "library"  # it looks for its zlib in .libs beside it
    shutil.copytree(scratch / "wheel" / "rocketmq" / ".libs", library / ".libs")
    shutil.copy2(scratch / "wheel" / "rocketmq" / "librocketmq.so", library)
    shim = made / "package" / "rocketmq" / "librocketmq.so"
    # The name that the loader knows it by must not be that of the real one, which it then would not load.
    _run(
        *(compiler, "-shared", "-fPIC", "-o", str(shim), str(SHIM)),
        *("-Wl,-soname,librocketmq-shim.so", "-Wl,--no-as-needed", str(library / "librocketmq.so")),
        "-Wl,-rpath,$ORIGIN/../../library",
    )


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    with (folder / "librocketmq.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
