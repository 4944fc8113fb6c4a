"""The texts that a dashboard gets besides its file: what its charts show, what filters do not apply to, and the causes.

They follow from the files and from the words for causes, so no file of `dashboards/` repeats them, and an export leaves them out.
"""

from __future__ import annotations

from deploy.dashboards.assets import Assets, Cell, Chart, Dashboard, Dataset, Filter
from deploy.dashboards.columns import columns_of
from spark_jobs.lookup.wording import CAUSES, CAUSES_IN_RATE
from spark_jobs.serving.files import WITHOUT

# The rows of notes, which no file has.
NOTE = "ROW-NOTE"
# Superset has one text for all charts without rows; a description says after this word what that means.
EMPTY = "Empty: "
DEFINITIONS = "docs/definitions.md"
_LINE = 150  # characters of a text over all columns

Rows = list[tuple[str, list[Cell]]]


def notes(dashboard: Dashboard, assets: Assets) -> tuple[Rows, Rows]:
    """Rows above the charts and below them, each with its name."""
    charts = charts_of(dashboard, assets)
    above = [*_empty(charts), *_filters(dashboard, charts, assets)]
    below = [["**Charts**", "", *(f"- **{chart.slice_name}**: {chart.description}" for chart in charts)]]
    if any("cause" in chart.params.get("all_columns", []) for chart in charts):
        below.insert(0, _causes())
    texts = [[line for paragraph in above for line in (paragraph, "")], *below]
    first, *others = [(f"NOTE-{number}", [_text(lines)]) for number, lines in enumerate(texts, start=1)]
    return [first], others


def charts_of(dashboard: Dashboard, assets: Assets) -> list[Chart]:
    return [assets.charts[cell.chart] for row in dashboard.rows for cell in row if cell.chart]


def _empty(charts: list[Chart]) -> list[str]:
    meanings = [
        f"*{chart.slice_name}*: {chart.description.partition(EMPTY)[2]}"
        for chart in charts
        if EMPTY in chart.description
    ]
    return ["**No results**, or a chart without lines, means: " + " ".join(meanings)] if meanings else []


def _filters(dashboard: Dashboard, charts: list[Chart], assets: Assets) -> list[str]:
    """Superset ignores a filter in a chart whose dataset lacks the column, and says so only behind a badge."""
    # What it does not apply to, and the filters of which that is true.
    found: dict[str, list[str]] = {}
    for each in dashboard.filters:
        without = [c.slice_name for c in charts if not applies(each, assets.datasets[c.dataset])]
        others = [c.slice_name for c in charts if c.slice_name not in without]
        if without:
            is_short = len(others) < len(without)
            text = ("applies only to " if is_short else "does not apply to ") + ", ".join(
                others if is_short else without
            )
            found.setdefault(text, []).append(f"*{each.name}*")
    lines = [f"{', '.join(names)} {text}." for text, names in found.items()]
    return [f"**Filters:** {' '.join(lines)}"] if lines else []


def applies(each: Filter, dataset: Dataset) -> bool:
    """Whether a filter of a dashboard changes the charts of a dataset."""
    if each.type == "time":
        return dataset.main_dttm_col is not None
    table = columns_of(dataset.schema_name, dataset.table_name)
    return each.column in {*dataset.calculated, *(c.name for c in table.columns if c.name not in WITHOUT)}


def _causes() -> list[str]:
    """Each cause with its sentence, first those that count in the orphan rate."""
    in_rate = [cause for cause in CAUSES if cause in CAUSES_IN_RATE]
    others = [cause for cause in CAUSES if cause not in CAUSES_IN_RATE]
    return [
        f"**Causes: why a message was not consumed** (exact definitions: {DEFINITIONS}, section Orphans)",
        "",
        *("Counted in the orphan rate:", "", *(f"- `{cause}`: {CAUSES[cause]}" for cause in in_rate), ""),
        *("Not counted in it:", "", *(f"- `{cause}`: {CAUSES[cause]}" for cause in others)),
    ]


def _text(lines: list[str]) -> Cell:
    """A text over all columns; its height is that of its lines, in units of 8 pixels."""
    height = sum(3 * (1 + len(line) // _LINE) for line in lines if line) + 5
    return Cell(markdown="\n".join(lines).strip(), width=12, height=height)
