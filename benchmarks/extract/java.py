"""The Java programs of this folder."""

from __future__ import annotations

from pathlib import Path

from sandbox.releases import NEWEST
from spark_jobs.lake import jars

HERE = Path(__file__).parent


def java_command(program: str, folder: Path, *arguments: str) -> list[str]:
    """Run a program in source mode: the launcher compiles it in memory, to the JIT it is as any other.

    Args:
        program: its file.
        folder: takes the client's files and logs.
        *arguments: its arguments.
    """
    options = [f"-Duser.home={folder}", f"-Drocketmq.client.logRoot={folder}", "-XX:-UsePerfData"]
    classpath = f"{jars.folder(NEWEST.ivy_file)}/*"
    return [jars.java(), *options, "-cp", classpath, str(HERE / program), *arguments]
