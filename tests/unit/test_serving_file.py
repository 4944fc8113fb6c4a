"""The error of a missing serving file names the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.lake import identity
from spark_jobs.serving.contents import ServingFileError, current_file
from spark_jobs.settings import Settings


@pytest.mark.parametrize(
    ("marker", "text", "why"),
    [
        (identity.UNFINISHED, "restore of /backups/1\n/catalog\n/warehouse\n", "run it again"),
        (identity.MOVED, "/elsewhere\n", "was moved to /elsewhere: set TRACE_HOME to that"),
        (None, "", "no serving file below .* yet: run `make run`"),
    ],
)
def test_a_home_without_a_lake_to_read(tmp_path: Path, marker: str | None, text: str, why: str):
    if marker:
        (tmp_path / marker).write_text(text)
    with pytest.raises(ServingFileError, match=why):
        current_file(Settings(home=tmp_path))
