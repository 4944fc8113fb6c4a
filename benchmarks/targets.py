"""The targets of a benchmark: `RATIO` lines for scripts, and which targets are missed."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console


def report(
    console: Console,
    values: Mapping[str, float],
    at_most: Mapping[str, float],
    at_least: Mapping[str, float] | None = None,
) -> int:
    """Print the values and the missed targets; return the exit code of the benchmark.

    Args:
        console: of the benchmark.
        values: what was measured, by name; a target whose value was not measured is left out.
        at_most: upper limits.
        at_least: lower limits.
    """
    for name, value in values.items():
        print(f"RATIO {name}={value:.4g}")
    missed = [
        f"{name} is {value:.4g}, at most {at_most[name]} is wanted"
        for name, value in values.items()
        if name in at_most and value > at_most[name]
    ]
    missed += [
        f"{name} is {values[name]:.4g}, at least {least} is wanted"
        for name, least in (at_least or {}).items()
        if name in values and values[name] < least
    ]
    console.print("; ".join(missed) or "all targets are reached")
    return 1 if missed else 0
