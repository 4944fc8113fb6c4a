"""What a benchmark says of its targets."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks import targets


@pytest.mark.parametrize(
    ("values", "code", "says"),
    [
        ({"fast": 2.0, "cheap": 1.0}, 0, "all targets are reached"),
        ({"fast": 1.99, "cheap": 1.0}, 1, "fast is 1.99, at least 2 is wanted"),
        ({"fast": 2.0, "cheap": 1.01}, 1, "cheap is 1.01, at most 1 is wanted"),
        ({"cheap": 0.5}, 0, "all targets are reached"),
    ],
)
def test_a_missed_target_is_named_and_fails(capsys, values, code, says):
    out = io.StringIO()
    assert targets.report(Console(file=out, width=200), values, {"cheap": 1}, {"fast": 2}) == code
    assert out.getvalue().strip() == says
    assert capsys.readouterr().out.splitlines() == [f"RATIO {n}={v:.4g}" for n, v in values.items()]
