"""The erasures since a backup: each is recorded beside the backups of its lake before it begins.

`backups.json` below `TRACE_HOME` lists the folders of backups. A line of `erasures.jsonl` in each of them is a rule as
`lake.ops.erasures` has it: a salted hash, not the text.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.backup.folder import Backup, BackupError, folders_of, read
from spark_jobs.erasure.rules import Kind, Rule

JOURNAL = "erasures.jsonl"
KNOWN = "backups.json"


def known_folders(home: Path) -> list[Path]:
    """The folders of the backups of a lake."""
    file = home / KNOWN
    return [Path(each) for each in json.loads(file.read_text())] if file.exists() else []


def remember(home: Path, *roots: Path) -> None:
    """Let later erasures of the lake be recorded in folders of backups; those that are known stay so."""
    with (home / f"{KNOWN}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folders = sorted({*map(str, known_folders(home)), *map(str, roots)})
        scratch = home / f"{KNOWN}.new"
        scratch.write_text(json.dumps(folders))
        os.replace(scratch, home / KNOWN)


def raise_if_away(home: Path) -> None:
    """Check that an erasure can be recorded.

    Raises:
        BackupError: a folder of backups cannot be written.
    """
    for root in known_folders(home):
        if not os.access(root / JOURNAL, os.W_OK):
            raise BackupError(
                f"{root} has backups of this lake, and the erasure cannot be recorded there ({JOURNAL} cannot be written), "
                f"so a restore would bring back what is erased. Mount it; or, if these backups were deleted for good, "
                f"remove it from {home / KNOWN}"
            )


def record(home: Path, rule: Rule) -> None:
    """Record a rule in all folders of backups, durably; it may be recorded again."""
    for root in known_folders(home):
        record_in(root, rule)


def record_in(root: Path, rule: Rule) -> None:
    """Record a rule in one folder of backups, durably; it may be recorded again."""
    line = json.dumps({**asdict(rule), "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})
    with (root / JOURNAL).open("a") as out:
        out.write(f"{line}\n")
        out.flush()
        os.fsync(out.fileno())


def key_of(rule: Rule) -> str:
    """The name of a rule in `Backup.erasures`."""
    return f"{rule.cluster}/{rule.kind.value}/{rule.salt}/{rule.digest}"


def journals(root: Path, made: Path, lake: str | None) -> list[Path]:
    """The folders with journals of a backup's lake: its own, and those where the lake recorded erasures when it was made.

    The own one may be a copy, which has the erasures up to the time of the copy only. The others are left out where they are not
    mounted, or have backups of another lake.
    """
    others = [each for each in known_folders(made / "home") if lake is not None and _is_of(each, lake)]
    return list(dict.fromkeys(each.resolve() for each in (root, *others)))


def _is_of(root: Path, lake: str) -> bool:
    try:
        return (root / JOURNAL).exists() and any(read(each).lake == lake for each in folders_of(root))
    except (OSError, BackupError):
        return False


def later_than(roots: list[Path], backup: Backup) -> list[Rule]:
    """The rules in the journals of these folders that were not complete in a backup.

    Raises:
        BackupError: a journal is missing or damaged.
    """
    rules = {key: rule for root in roots for key, rule in recorded(root).items()}
    return [rule for key, rule in rules.items() if key not in backup.erasures]


def recorded(root: Path) -> dict[str, Rule]:
    """The rules in the journal of a folder of backups, by their keys.

    Raises:
        BackupError: the journal is missing or damaged.
    """
    file = root / JOURNAL
    found: dict[str, Rule] = {}
    try:
        for line in file.read_text().splitlines():
            values = json.loads(line)
            rule = Rule(values["cluster"], Kind(values["kind"]), values["salt"], values["digest"])
            found[key_of(rule)] = rule
    except (OSError, ValueError, KeyError) as error:
        raise BackupError(
            f"{file} cannot be read ({error}): it has the erasures since the backup, without which a restore would "
            "bring back what was erased. Restore the file first"
        ) from None
    return found
