"""Run a job as a program: its exit code, and a last line with the cause and the remedy."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from spark_jobs.backup.folder import BackupError
from spark_jobs.lake import damaged_files, unreachable
from spark_jobs.lake.damaged_files import DamagedTableError
from spark_jobs.lake.deployment import NO_EXECUTOR, ClusterError, catalog_address
from spark_jobs.lake.identity import WrongLakeError
from spark_jobs.process import interrupts, jvm
from spark_jobs.process.home import keep_private
from spark_jobs.settings import Settings
from spark_jobs.settings_error import SettingsError

_LOCKED = ("SQLITE_BUSY", "database is locked")
_FULL = ("No space left on device", "SQLITE_FULL", "database or disk is full")
_OUT_OF_MEMORY = (
    "java.lang.OutOfMemoryError",
    "GC overhead limit exceeded",
    "Java heap space",
    "INVALID_DRIVER_MEMORY",  # too little to start with
)
_DISCONNECTED = ("Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError", "JvmDiedError")
_COMPLETE = (WrongLakeError, DamagedTableError, ClusterError, BackupError)
_NOT_STARTED = "JAVA_GATEWAY_EXITED"
_RETRY = "Nothing that was published is lost: run the job again"
# Connections to a JVM that dies break before its process has ended.
_SECONDS_TO_END = 5.0


def job_parser(description: str | None, with_dry_run: bool = False) -> argparse.ArgumentParser:
    """A parser with the option that every job has: `--run-id`, by default a random one; and with `--dry-run`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--run-id", default=uuid.uuid4().hex, help="written to all snapshots and results of the run"
    )
    if with_dry_run:
        parser.add_argument(
            "--dry-run",
            action=argparse.BooleanOptionalAction,
            default=False,
            help="change nothing, print what would change",
        )
    return parser


def run_job(main: Callable[[], int]) -> int:
    """Run a job's `main` and return its exit code; its JVM has ended by then.

    1: it failed; 2: its settings or arguments cannot be used; 130: after Ctrl-C.
    """
    with interrupts.handled(), _quiet_connections():
        try:
            keep_private(Settings().home)
            code = main()
            if code and not interrupts.requested() and jvm.exit_code() is not None:
                print(f"failed: {_dead_jvm('')}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            code = interrupts.EXIT_CODE
        except SettingsError as error:
            print(f"failed: {error}", file=sys.stderr, flush=True)
            code = 2
        except Exception as error:
            if not interrupts.requested():  # otherwise the error is a consequence of the interrupt
                report_failure(error)
            code = 1
        if interrupts.requested():
            jvm.stop()
            code = interrupts.EXIT_CODE
    if code == interrupts.EXIT_CODE:
        interrupts.say(interrupts.STOPPED)
    return code


def report_failure(error: Exception) -> None:
    """Print the traceback of an error, and a last line with a hint if there is one; only that line if it is complete."""
    text = describe(error)
    if not (text and (isinstance(error, _COMPLETE) or _is_disconnected(_chain(error)))):
        traceback.print_exception(error)
    if text:
        print(f"failed: {text}", file=sys.stderr, flush=True)


def raise_if_fatal(error: Exception) -> None:
    """Raise the error again if the job cannot go on with the next cluster or table: its JVM has died, or it has no executor."""
    chain = _chain(error)
    if _is_disconnected(chain) or NO_EXECUTOR in chain:
        raise error


def describe(error: Exception) -> str | None:
    """Say in one line what made a job fail and what to do; None if it is not a known cause."""
    if isinstance(error, _COMPLETE):
        return str(error)
    chain = _chain(error)
    if _NOT_STARTED in chain or _is_disconnected(chain):
        return _dead_jvm(chain)
    if any(sign in chain for sign in _OUT_OF_MEMORY):
        return _out_of_memory()
    settings = Settings()
    if any(sign in chain for sign in _LOCKED):
        return (
            f"the catalog {catalog_address(settings)} is locked: another process held it for more than "
            f"{settings.catalog.lock_seconds} s. Nothing was lost: end that process (`fuser` names it) and run the job again"
        )
    if any(sign in chain for sign in _FULL):
        return (
            f"No space left on device, of the warehouse {settings.warehouse_uri}, the catalog "
            f"{catalog_address(settings)} or Spark's temporary files. Nothing was lost: make room and run the job again"
        )
    return unreachable.describe(chain, settings) or damaged_files.describe(chain)


def _chain(error: BaseException | None) -> str:
    """The types and texts of an error and of its causes."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return "\n".join(f"{type(each).__name__}: {each!r} {each}" for each in seen)


def _is_disconnected(chain: str) -> bool:
    """Whether the JVM has ended, or ends shortly after a connection error."""
    of_connection = any(sign in chain for sign in _DISCONNECTED)
    if jvm.jvm_process() is None:
        return "Py4JNetworkError" in chain
    return jvm.exit_code(_SECONDS_TO_END if of_connection else 0) is not None


def _dead_jvm(chain: str) -> str:
    code = jvm.exit_code()
    if code in jvm.OUT_OF_MEMORY or any(sign in chain for sign in _OUT_OF_MEMORY):
        return _out_of_memory()
    how = f"ended with code {code}: see its output above" if code is not None else "died"
    if code == -signal.SIGKILL:
        how = (
            "was killed (SIGKILL): by a user, or by the kernel because the machine had no memory left (see `dmesg`). "
            "In that case stop another process, or lower spark.driver_memory (TRACE_SPARK__DRIVER_MEMORY)"
        )
    elif code is not None and code < 0:
        how = f"was ended by signal {signal.Signals(-code).name}"
    elif code is None and _NOT_STARTED in chain:
        how = "did not start: see its output above"
    return f"the Spark JVM of this job {how}. {_RETRY}"


def _out_of_memory() -> str:
    return (
        f"the Spark JVM of this job ran out of memory ({Settings().spark.driver_memory}): raise spark.driver_memory "
        f"(TRACE_SPARK__DRIVER_MEMORY=4g). {_RETRY}"
    )


@contextmanager
def _quiet_connections() -> Iterator[None]:
    """Within the block, py4j and PySpark print no tracebacks of broken connections; they nevertheless raise errors.

    py4j logs to the root logger, PySpark's accumulator server prints.
    """

    def is_news(record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname

    root = logging.getLogger()
    root.addFilter(is_news)
    accumulators = sys.modules.get("pyspark.accumulators")
    with ExitStack() as stack:
        stack.callback(root.removeFilter, is_news)
        if accumulators:
            server = accumulators.AccumulatorTCPServer
            stack.callback(setattr, server, "handle_error", server.handle_error)
            server.handle_error = _ignore_end(server.handle_error)
        yield


def _ignore_end(handle_error: Callable[..., None]) -> Callable[..., None]:
    """Wrap the error handler of a socket server; ignore clients that have disconnected."""

    def handle(*args: object) -> None:
        if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
            handle_error(*args)

    return handle
