"""A backup holds a lake as it was at one moment, and a restore gives it back, without what was erased since."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spark_jobs.backup import contents, copying, erasures, folder, make, restore
from spark_jobs.backup.erasures import JOURNAL, KNOWN
from spark_jobs.backup.folder import BackupError
from spark_jobs.backup.move import move
from spark_jobs.erasure import rules
from spark_jobs.erasure.rules import Kind, Rule
from spark_jobs.lake import identity, tables
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.identity import WrongLakeError
from spark_jobs.maintenance.expiry import expire_snapshots
from spark_jobs.process.file_lock import locked
from spark_jobs.process.home import LOCK
from spark_jobs.settings import Catalog, Settings
from tests.backup.world import KEY, files, job, state
from tests.maintenance.files import holding
from tests.spark.stored import messages, planned, write


def stored(root: Path) -> dict[str, Path]:
    """Path below the warehouse to the copy, of all files of the newest backup."""
    made = folder.read(folder.chosen(root, None))
    return {name: folder.stored(root, content) for name, content in made.files.items()}


@pytest.fixture
def other_file_system(tmp_path) -> Iterator[Path]:
    """A folder on another file system than the home, where there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as found:
        yield Path(found)


def test_a_restore_elsewhere_is_the_lake_of_the_back_up(
    original, spark, root, tmp_path, other_file_system, monkeypatch
):
    """Although the lake has gone on; and it leaves the original alone."""
    warehouse = other_file_system / "warehouse"
    monkeypatch.setenv("TRACE_WAREHOUSE__URI", str(warehouse))
    before = state(original)
    write(spark, original, messages(spark, 40, 60), planned(40, 60), "later")
    untouched, home = files(original.home), tmp_path / "restored"
    home.mkdir()
    erasures.remember(home, tmp_path / "known")
    done = job("restore", home, "--from", root)
    assert done.returncode == 0, done.stderr
    assert "paths were rewritten; 0 later erasures were applied" in " ".join(done.stderr.split())
    restored = Settings(home=home)
    assert {tmp_path / "known", root} <= {*erasures.known_folders(home)}
    assert state(restored) == before
    assert files(original.home) == untouched
    shutil.rmtree(home / "dbt", ignore_errors=True)
    assert holding(warehouse, f"{original.home}/") == []
    assert (home / "airflow" / "fernet-key").read_text() == "secret"
    assert (home / "airflow" / "fernet-key").stat().st_mode & 0o777 == 0o600
    (view,) = (each for each in contents.tables_of(home / "catalog.db") if each.is_view)
    assert Path(view.metadata).is_relative_to(warehouse)
    assert Path(view.metadata).exists()


def test_an_erasure_that_begins_during_a_restore_is_applied_too(root, tmp_path, monkeypatch):
    """The original goes on, and records it in the folder of the backups."""
    monkeypatch.setattr(restore, "relocate", lambda *given: None)
    monkeypatch.setattr(restore, "check", lambda catalog: None)
    copied = shutil.copytree(root, tmp_path / "backups")
    first, second = (Rule("other", Kind.KEY, "00", digest) for digest in ("11", "22"))
    erasures.record_in(copied, first)
    applied: list[list[Rule]] = []

    def erase(settings: Settings, later: list[Rule]) -> None:
        applied.append([*later])
        if len(applied) == 1:
            erasures.record_in(copied, second)

    made = folder.chosen(copied, None)
    done = restore.restore(Settings(home=tmp_path / "home"), copied, made, lambda size: None, erase)
    assert applied == [[first], [second]]
    assert done.erased == [first, second]


def test_damaged_and_missing_files_are_named(original, root, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(root, copied)
    data = next(path for name, path in stored(copied).items() if name.endswith(".parquet"))
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    done = job("restore", tmp_path / "home", "--from", copied)
    assert (done.returncode, f"failed: {data} is damaged" in done.stderr) == (1, True), done.stderr
    data.unlink()
    done = job("restore", tmp_path / "home", "--from", copied)
    assert f"failed: {data} cannot be read (No such file or directory): the backup is damaged" in done.stderr
    assert not (tmp_path / "home" / "catalog.db").exists()


def test_a_folder_without_back_ups_is_refused(root, tmp_path):
    (made, *_) = folder.folders_of(root)
    for given, why in (
        (tmp_path / "nowhere", "does not exist"),
        (made, f"is one backup: give its folder {root}, and this backup as AT={made.name}"),
    ):
        with pytest.raises(BackupError, match=re.escape(why)):
            folder.chosen(given, None)
    with pytest.raises(BackupError, match="no complete backup whose name starts with yesterday"):
        folder.chosen(root, "yesterday")


def test_a_back_up_that_was_cut_short_is_none(root, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(root, copied)
    for made in folder.folders_of(copied):
        (made / folder.MANIFEST).unlink()
    done = job("restore", tmp_path / "home", "--from", copied)
    assert f"failed: {copied} has no complete backup (there are: none)" in done.stderr


def test_without_the_journal_of_erasures_nothing_is_restored(root, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(root, copied)
    (copied / JOURNAL).unlink()
    done = job("restore", tmp_path / "home", "--from", copied)
    assert "without which a restore would bring back what was erased. Restore the file first" in done.stderr
    assert not (tmp_path / "home" / "catalog.db").exists()


def test_an_erasure_whose_record_cannot_be_written_is_refused(original, root):
    (original.home / KNOWN).write_text(json.dumps([str(root), "/no/such/folder"]))
    done = job("erase", original.home, "--cluster", "c", "--key", KEY, "--yes")
    (original.home / KNOWN).write_text(json.dumps([str(root)]))
    assert done.returncode == 1
    assert (
        "failed: /no/such/folder has backups of this lake, and the erasure cannot be recorded there"
        in done.stderr
    )


def test_a_home_with_a_lake_is_refused(original, root):
    done = job("restore", original.home, "--from", root)
    assert done.returncode == 1
    assert f"{original.home}/warehouse exist: a TRACE_HOME without a lake is needed" in done.stderr


def test_files_that_are_deleted_meanwhile(original, spark, tmp_path, monkeypatch):
    """Maintenance expires snapshots after the catalog was copied: it is copied again."""
    copied = []

    def copy_database(source: Path, target: Path):  # type: ignore[no-untyped-def]
        content = real(source, target)
        if source.name == "catalog.db" and not copied:
            write(spark, original, messages(spark, 60, 80), planned(60, 80), "later")
            expire_snapshots(spark, tables.RAW.name, datetime.now(UTC), keep=1)
        copied.append(source.name)
        return content

    real = copying.copy_database
    monkeypatch.setattr(copying, "copy_database", copy_database)
    made, backup = make.make(original, tmp_path, lambda size: None)
    assert copied.count("catalog.db") == 2
    assert backup.tables[tables.RAW.name] == lake(original).load_table(tables.RAW.name).scan().count()
    assert folder.folders_of(tmp_path) == [made]


def test_a_second_back_up_copies_only_new_files_and_old_ones_can_be_removed(original, spark, tmp_path):
    make.make(original, tmp_path, lambda size: None)
    before = {path: path.stat().st_ino for path in (tmp_path / "files").rglob("*") if path.is_file()}
    write(spark, original, messages(spark, 80, 90), planned(80, 90), "later")
    make.make(original, tmp_path, lambda size: None)
    after = {path: path.stat().st_ino for path in (tmp_path / "files").rglob("*") if path.is_file()}
    assert before.items() <= after.items()
    assert len(folder.folders_of(tmp_path)) == 2
    assert make.remove_old(tmp_path, 1) == 1
    left = {path for path in (tmp_path / "files").rglob("*") if path.is_file()}
    assert left == set(stored(tmp_path).values())


def leave_unfinished(home: Path, *paths: Path) -> None:
    with contextlib.suppress(ZeroDivisionError), identity.unfinished(home, "restore of a test", *paths):
        (home / "warehouse").mkdir(exist_ok=True)
        (home / "warehouse" / "left").touch()
        raise ZeroDivisionError


def test_a_killed_restore_is_finished_by_the_next(root, tmp_path):
    home = tmp_path / "home"
    left = Settings(home=home / "elsewhere")
    for paths in (
        [home / "catalog.db", left.home / "warehouse"],
        [left.home / "catalog.db", home / "warehouse"],
    ):
        leave_unfinished(home, *paths)
        refused = job("restore", home, "--from", root)
        assert "was not finished, and the settings now name" in refused.stderr
        assert (home / "warehouse" / "left").exists(), "it may be of another lake"
    leave_unfinished(home, home / "catalog.db", home / "warehouse")
    (home / "catalog.db-journal").write_text("hot")
    with pytest.raises(WrongLakeError, match="a restore of a test to .* did not end: run it again"):
        lake(Settings(home=home))
    done = job("restore", home, "--from", root)
    assert done.returncode == 0, done.stderr
    assert not (home / "warehouse" / "left").exists()
    assert not (home / "catalog.db-journal").exists()


def test_a_move(root, tmp_path):
    """Of a restored lake, so that the original stays for the other tests."""
    old, new, backups = tmp_path / "old", tmp_path / "new", tmp_path / "backups"
    assert job("restore", old, "--from", root).returncode == 0
    assert job("backup", old, "--to", backups).returncode == 0
    new.mkdir()
    (new / "of-others.sh").touch()
    (new / "of-others.sh").chmod(0o755)  # whatever umask a job has left to this process
    before = state(Settings(home=old))
    with locked(old / LOCK, "make up"):
        refused = job("move", old, "--to", new)
    assert refused.returncode == 1
    assert "`make up` (pid " in refused.stderr
    for elsewhere, why in (
        (old, "is the TRACE_HOME of this lake"),
        (old / "inner", "is inside of the other"),
        (old.parent, "is inside of the other"),
    ):
        refused = job("move", old, "--to", elsewhere)
        assert refused.returncode == 1
        assert why in refused.stderr
    # A move that was killed at its last step.
    (old / identity.MOVED).write_text(f"{new}\n")
    leave_unfinished(new, new / "catalog.db", new / "warehouse")
    done = job("move", old, "--to", new)
    assert done.returncode == 0, done.stderr
    assert state(Settings(home=new)) == before
    assert holding(new / "warehouse", f"{old}/") == []
    with pytest.raises(WrongLakeError, match=f"was moved to {new}"):
        lake(Settings(home=old))
    assert stat.S_IMODE((new / "of-others.sh").stat().st_mode) == 0o755
    assert job("backup", new, "--to", backups).returncode == 0
    of_old, of_new = map(folder.read, folder.folders_of(backups))
    rewritten = [
        name for name in of_old.files if of_new.files.get(name, of_old.files[name]) != of_old.files[name]
    ]
    assert rewritten
    for made in (of_old, of_new):
        for content in made.files.values():
            copying.verify(folder.stored(backups, content), content)
    assert job("merge", new).returncode == 0


def test_other_catalogs_are_referred_to_the_page(tmp_path):
    catalog = Catalog(kind="postgres", uri="jdbc:postgresql://127.0.0.1:1/lake")
    with pytest.raises(BackupError, match=r"see docs/backup.md, Beyond one machine"):
        make.make(Settings(home=tmp_path, catalog=catalog), tmp_path / "to", lambda size: None)


def test_a_folder_that_is_not_for_back_ups_alone_is_refused(original, tmp_path):
    """And nothing in it is changed: a TRACE_HOME looks like a backup that was not finished."""
    with_others = tmp_path / "photos"
    (with_others / "files").mkdir(parents=True)
    (with_others / "files" / "one.jpg").touch()
    _, made = make.make(original, of_another := tmp_path / "of another", lambda size: None)
    strange = dataclasses.replace(made, home="/another", lake="another")
    folder.write(folder.chosen(of_another, None), strange)
    known = (original.home / KNOWN).read_text()
    erasures.remember(original.home, away := tmp_path / "away")
    before = files(original.home)
    for root, why in (
        (original.home.parent, f"contains {original.home}"),
        (original.home, f"contains {original.home}"),
        (original.home / "backups", f"is inside of TRACE_HOME {original.home}"),
        (original.home / "warehouse" / "backups", f"is inside of TRACE_HOME {original.home}"),
        (with_others, "has files, but no erasures.jsonl"),
        (away, "has backups of this lake, but no erasures.jsonl now"),
        (of_another, "is a backup of another lake, of TRACE_HOME /another"),
    ):
        refused = job("backup", original.home, "--to", root, "--keep", "1")
        assert refused.returncode == 1
        assert why in refused.stderr
        assert not (root / folder.LOCK).exists()
    (original.home / KNOWN).write_text(known)
    assert files(original.home) == before
    assert (with_others / "files" / "one.jpg").exists()


def test_a_damaged_file_is_copied_again(original, tmp_path, caplog):
    make.make(original, tmp_path, lambda size: None)
    first = stored(tmp_path)
    damaged, missing, *_ = first.values()
    damaged.write_bytes(bytes(damaged.stat().st_size))
    missing.unlink()
    (made,) = folder.folders_of(tmp_path)
    make.make(original, tmp_path, lambda size: None)
    assert f"{damaged} is damaged" in caplog.text
    for content in folder.read(made).files.values():
        copying.verify(folder.stored(tmp_path, content), content)
    (made / folder.MANIFEST).write_text("{")
    make.make(original, tmp_path, lambda size: None)
    with pytest.raises(BackupError, match=f"Remove its folder {made}"):
        make.remove_old(tmp_path, 3)
    assert make.remove_old(tmp_path, 1) == 2


def test_a_file_that_is_missing_in_the_lake(original, tmp_path):
    catalog = original.home / "catalog.db"
    (raw,) = (table for table in contents.tables_of(catalog) if table.name == tables.RAW.name)
    contents.read_files(raw)
    for name in (next(each for each, rows in raw.files.items() if rows), next(iter(raw.files))):
        hidden = Path(name).with_suffix(".hidden")
        os.rename(name, hidden)
        try:
            with pytest.raises(BackupError, match=f"{name}.* the lake is damaged"):
                make.make(original, tmp_path, lambda size: None)
        finally:
            os.rename(hidden, name)
    assert folder.folders_of(tmp_path) == []


def test_another_catalog_is_refused(root, tmp_path, original):
    """The lake would not be opened there."""
    made = folder.chosen(root, None)
    moved = tmp_path / "moved"
    shutil.copytree(root, moved)
    backup = folder.read(moved / made.name)
    settings = Settings(home=tmp_path / "home")
    same = dataclasses.replace(backup, home=str(settings.home), warehouse=str(settings.home / "warehouse"))
    folder.write(moved / made.name, same)
    with pytest.raises(BackupError, match=f"with the catalog {original.home}/catalog.db"):
        restore.restore(settings, moved, moved / made.name, lambda size: None, lambda *_: None)


def test_two_back_ups_into_one_folder(original, tmp_path):
    with locked(tmp_path / folder.LOCK, "make backup"):
        refused = job("backup", original.home, "--to", tmp_path)
    assert refused.returncode == 1
    assert "wait until that backup has ended" in refused.stderr


def test_an_erasure_that_began_before_the_folder_was_known(original, spark, tmp_path):
    """Its rule is in the lake, but not complete: the backup records it."""
    rule = Rule("other", Kind.KEY, "00", "11")
    rules.store(spark, original, rule, "run")
    _, made = make.make(original, tmp_path, lambda size: None)
    assert rule in erasures.later_than([tmp_path], made)


def test_a_complete_erasure_that_was_not_recorded(original, spark, tmp_path):
    """The folder was not known while it ran: it is applied to every backup that is older."""
    _, old = make.make(original, tmp_path, lambda size: None)
    (original.home / KNOWN).unlink()
    rule = Rule("other", Kind.KEY, "22", "33")
    rules.store(spark, original, rule, "run")
    rules.complete(spark, rule)
    _, new = make.make(original, tmp_path, lambda size: None)
    assert rule in erasures.later_than([tmp_path], old)
    assert rule not in erasures.later_than([tmp_path], new)


def test_a_copied_folder_has_the_erasures_since_the_copy_too(original, tmp_path):
    root, copy = tmp_path / "root", tmp_path / "copy"
    made, backup = make.make(original, root, lambda size: None)
    shutil.copytree(root, copy)
    rule = Rule("other", Kind.KEY, "44", "55")
    erasures.record(original.home, rule)
    assert rule not in erasures.later_than([copy], backup)
    assert rule in erasures.later_than(erasures.journals(copy, copy / made.name, backup.lake), backup)
    assert root.resolve() not in erasures.journals(copy, copy / made.name, "another lake")
    shutil.rmtree(root)
    assert erasures.journals(copy, copy / made.name, backup.lake)[0] == copy.resolve()


def test_folders_that_are_remembered_at_once(tmp_path):
    folders = [tmp_path / str(number) for number in range(20)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda each: erasures.remember(tmp_path, each), folders))
    assert set(erasures.known_folders(tmp_path)) == {*folders}


def test_a_job_that_publishes_during_a_move(original, spark, tmp_path, monkeypatch):
    """The move is refused, and the old lake stays in use."""

    def relocate(*arguments: object) -> None:
        write(spark, original, messages(spark, 90, 100), planned(90, 100), "later")

    monkeypatch.setattr(restore, "relocate", relocate)
    monkeypatch.setattr(restore, "check", lambda catalog: None)
    with pytest.raises(BackupError, match="a job published to .* during the move"):
        move(original, tmp_path / "new", lambda size: None)
    assert not (original.home / identity.MOVED).exists()
