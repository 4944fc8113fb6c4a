"""The files of `dashboards/`: the checks of `make lint`, and the way to Superset's format and back."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from deploy.dashboards import assets, export, lint, roles
from deploy.dashboards.assets import FOLDER, AssetError
from deploy.dashboards.bundle import bundle
from deploy.dashboards.columns import MODELS, columns_of
from deploy.dashboards.notes import EMPTY, NOTE, applies
from spark_jobs.lookup.wording import CAUSES, CAUSES_IN_RATE
from spark_jobs.settings import PROJECT

URI = "duckdb:///dashboards.duckdb"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for kind in assets.KINDS:
        shutil.copytree(FOLDER / kind, tmp_path / kind)
    shutil.copy(FOLDER / roles.FILE, tmp_path)
    return tmp_path


def change(file: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    content = yaml.safe_load(file.read_text())
    edit(content)
    file.write_text(yaml.safe_dump(content, sort_keys=False))


def test_the_files_have_no_problems():
    assert lint.problems(assets.read()) == []
    assert {dashboard.dashboard_title for dashboard in assets.read().dashboards.values()} == {
        *("Overview", "Consumer groups", "Producers", "Orphans", "Pipeline")
    }


@pytest.mark.parametrize(
    ("file", "edit", "says"),
    [
        (
            "datasets/send_latency.yaml",
            lambda c: c.update(table_name="send_latencies"),
            "dbt has no table marts.send_latencies",
        ),
        (
            "datasets/send_latency.yaml",
            lambda c: c["metrics"]["sends"].update(expression="sum(sendz)"),
            "metric sends: Binder Error",
        ),
        ("charts/sends.yaml", lambda c: c["params"].update(metric="sendz"), "has no metric sendz"),
        ("charts/groups.yaml", lambda c: c["params"]["groupby"].append("nobody"), "columns: Binder Error"),
        (
            "charts/checks.yaml",
            lambda c: c["params"]["metrics"].remove("failed"),
            "conditional_formatting of failed, which it does not show",
        ),
        ("charts/groups.yaml", lambda c: c.update(description=""), "no description"),
        (
            "dashboards/overview.yaml",
            lambda c: c["filters"][1].update(column="nobody"),
            "filter Cluster: Binder Error",
        ),
        ("dashboards/overview.yaml", lambda c: c["rows"].pop(1), "no dashboard shows it"),
        (
            "dashboards/orphans.yaml",
            lambda c: c["rows"].pop(4),
            "dashboard_orphans does not show ref('orphaned_messages')",
        ),
    ],
)
def test_a_mistake_is_found(folder: Path, file: str, edit: Callable[[dict[str, Any]], object], says: str):
    change(folder / file, edit)
    assert any(says in line for line in lint.problems(assets.read(folder)))


@pytest.mark.parametrize(
    ("file", "edit", "says"),
    [
        ("charts/sends.yaml", lambda c: c.update(dataset="nothing"), "there is no datasets/nothing.yaml"),
        ("charts/sends.yaml", lambda c: c.update(uuid="1"), "Extra inputs"),
        ("dashboards/overview.yaml", lambda c: c["rows"][0][1].update(width=12), "wider than 12"),
        (
            "dashboards/overview.yaml",
            lambda c: c["rows"][0][1].update(markdown="and a text"),
            "either a chart or",
        ),
    ],
)
def test_a_wrong_file_is_refused(
    folder: Path, file: str, edit: Callable[[dict[str, Any]], object], says: str
):
    change(folder / file, edit)
    with pytest.raises(AssetError, match=says) as error:
        assets.read(folder)
    assert file in str(error.value)


def test_a_dashboard_without_an_exposure_and_an_exposure_without_a_dashboard(folder: Path):
    (folder / "dashboards" / "overview.yaml").rename(folder / "dashboards" / "another.yaml")
    lines = lint.problems(assets.read(folder))
    assert "dashboards/another.yaml: exposures.yml has no dashboard_another" in lines
    assert "exposures.yml: there is no dashboard for dashboard_overview" in lines


def test_objects_keep_their_uuids_and_have_no_address():
    first, second = bundle(assets.read(), URI), bundle(assets.read(), URI)
    assert first == second
    found = [yaml.safe_load(text)["uuid"] for path, text in first.items() if path != "metadata.yaml"]
    assert len(found) == len(set(found))
    assert assets.uuid_of("charts", "sends") in found
    everything = "".join(file.read_text() for file in FOLDER.rglob("*.yaml"))
    for word in ("duckdb:", "password", str(PROJECT), "uuid", "chartId"):
        assert word not in everything


def notes_of(name: str) -> list[str]:
    position = yaml.safe_load(bundle(assets.read(), URI)[f"dashboards/{name}.yaml"])["position"]
    rows = [key for key in position["GRID_ID"]["children"] if key.startswith(NOTE)]
    assert rows == [f"{NOTE}-{number}" for number in range(1, len(rows) + 1)]
    return [position[cell]["meta"]["code"] for row in rows for cell in position[row]["children"]]


def test_notes_say_what_each_chart_shows_and_what_an_empty_one_means():
    found = assets.read()
    for name, dashboard in found.dashboards.items():
        above, *_, definitions = notes_of(name)
        for chart in (found.charts[cell.chart] for row in dashboard.rows for cell in row if cell.chart):
            assert f"**{chart.slice_name}**: {chart.description}" in definitions
            if EMPTY in chart.description:
                assert f"*{chart.slice_name}*: {chart.description.partition(EMPTY)[2]}" in above


def test_notes_say_to_what_a_filter_does_not_apply():
    assert (
        "**Filters:** *Time (UTC)* does not apply to Freshness (UTC). *Topic*, *Team* does not apply to Trace completeness, "
        "Freshness (UTC). *Producer group* does not apply to Trace completeness, Freshness (UTC), Trace coverage of topics."
    ) in notes_of("producers")[0]
    assert (
        "*Group* applies only to Clients without a trace, Trace records by topic or consumer group, "
        "Bytes of trace by topic or consumer group, Trace by topic and group."
    ) in notes_of("pipeline")[0]


def test_the_team_filters_every_dataset_with_a_topic_or_a_group():
    """`slo_burn` has objectives, which are not of one team."""
    found = assets.read()
    (team,) = (each for each in found.dashboards["overview"].filters if each.name == "Team")
    for name, dataset in found.datasets.items():
        columns = {c.name for c in columns_of(dataset.schema_name, dataset.table_name).columns}
        if columns & {"topic", "consumer_group", "expected_group"} and name not in (
            "slo_burn",
            "trace_volume",
        ):
            assert applies(team, dataset), name


def test_the_causes_are_explained_where_they_are_shown():
    """The words are those of the table of causes in docs/definitions.md, and of the model."""
    explained = {
        name for name in assets.read().dashboards if any("**Causes" in note for note in notes_of(name))
    }
    assert explained == {"orphans"}
    (note,) = (note for note in notes_of("orphans") if "**Causes" in note)
    counted, _, others = note.partition("Not counted")
    for cause, words in CAUSES.items():
        assert f"- `{cause}`: {words}" in (counted if cause in CAUSES_IN_RATE else others)
    table = (PROJECT / "docs" / "definitions.md").read_text().partition("| cause, the first that applies")[2]
    rows = re.findall(
        r"^\| `(\w+)` \|.*\| *(yes|) *\| *(yes|) *\|$", table.partition("\n\n")[0], re.MULTILINE
    )
    assert {cause for cause, _, in_rate in rows if in_rate} == CAUSES_IN_RATE
    # A look-up alone says `retrying`, in the row without a cause of its own.
    assert {cause for cause, *_ in rows} | {"retrying"} == CAUSES.keys()
    model = (MODELS / "marts" / "facts" / "orphaned_messages.yml").read_text()
    (listed,) = re.findall(r"cause_is_known: cause in \((.*?)\)", model)
    assert set(re.findall(r"\w+", listed)) == CAUSES.keys()


def test_an_export_of_what_was_imported_changes_nothing(folder: Path):
    exported = bundle(assets.read(folder), URI)
    assert export.write(export.normalized(exported, assets.read(folder)), folder) == []


def test_an_export_writes_what_was_changed_and_nothing_else(folder: Path):
    exported = bundle(assets.read(folder), URI)
    chart = yaml.safe_load(exported["charts/sends.yaml"])
    chart["slice_name"] = "Returned sends"
    chart["params"] |= {"subheader": "of the selected time", "datasource": "7__table", "slice_id": 3}
    exported["charts/sends.yaml"] = yaml.safe_dump(chart)
    new = chart | {"uuid": "6c0e6f5e-3a8b-4d0f-9d6b-0d7c7f1b2a11", "slice_name": "Mine: sends, too"}
    exported["charts/any.yaml"] = yaml.safe_dump(new)
    del exported["charts/gaps.yaml"]
    dashboard = yaml.safe_load(exported["dashboards/pipeline.yaml"])
    for row in [
        each for each in dashboard["position"].values() if isinstance(each, dict) and each["type"] == "ROW"
    ]:
        row["children"] = [
            cell
            for cell in row["children"]
            if dashboard["position"][cell]["meta"].get("uuid") != assets.uuid_of("charts", "gaps")
        ]
    exported["dashboards/pipeline.yaml"] = yaml.safe_dump(dashboard)

    done = export.write(export.normalized(exported, assets.read(folder)), folder)
    assert sorted(done) == [
        "changed: charts/sends.yaml",
        "changed: dashboards/pipeline.yaml",
        "deleted: charts/gaps.yaml",
        "new: charts/mine_sends_too.yaml",
    ]
    assert assets.read(folder).charts["sends"].params == {
        "metric": "sends",
        "y_axis_format": ",d",
        "header_font_size": 0.4,
        "subheader_font_size": 0.15,
        "subheader": "of the selected time",
    }
    again = bundle(assets.read(folder), URI)
    assert export.write(export.normalized(again, assets.read(folder)), folder) == []


def test_headings_wrap_between_words_and_an_export_leaves_them_out(folder: Path):
    exported = bundle(assets.read(folder), URI)
    dataset = yaml.safe_load(exported["datasets/traces/orphan_rate.yaml"])
    labels = {each["metric_name"]: each["verbose_name"] for each in dataset["metrics"]}
    assert labels["orphan_share"] == "orphan share"
    assert labels["passed_untraced"] == "passed_untraced", "a value of the column cause"
    assert {each["column_name"]: each["verbose_name"] for each in dataset["columns"]}[
        "expected_group"
    ] == "expected group"
    for metric in dataset["metrics"]:
        if metric["metric_name"] == "judged":
            metric["verbose_name"] = "of"
    exported["datasets/traces/orphan_rate.yaml"] = yaml.safe_dump(dataset)
    assert export.write(export.normalized(exported, assets.read(folder)), folder) == [
        "changed: datasets/orphan_rate.yaml"
    ]
    metrics = assets.read(folder).datasets["orphan_rate"].metrics
    assert (metrics["judged"].verbose_name, metrics["orphan_share"].verbose_name) == ("of", None)


def test_a_layout_that_the_files_cannot_express_is_refused(folder: Path):
    exported = bundle(assets.read(folder), URI)
    dashboard = yaml.safe_load(exported["dashboards/pipeline.yaml"])
    dashboard["position"]["GRID_ID"]["children"].append("TABS-1")
    dashboard["position"]["TABS-1"] = {"type": "TABS", "id": "TABS-1", "children": []}
    exported["dashboards/pipeline.yaml"] = yaml.safe_dump(dashboard)
    with pytest.raises(AssetError, match="Pipeline: TABS is not supported"):
        export.normalized(exported, assets.read(folder))


def test_roles(folder: Path):
    assert [(role["name"], role["may_query"]) for role in roles.read_roles()] == [
        ("viewer", False),
        ("analyst", True),
    ]
    (folder / roles.FILE).write_text("team: {only: {cluster: [prod]}}")
    assert roles.read_roles(folder) == [{"name": "team", "may_query": False, "only": {"cluster": ["prod"]}}]
    (folder / roles.FILE).write_text("team: {may_query: true, only: {cluster: [prod]}}")
    with pytest.raises(AssetError, match="SQL Lab does not enforce rules"):
        roles.read_roles(folder)


PAGES = "http://127.0.0.1:8080/trace-warehouse"
LINK = '<a href="{}" target="_blank">{}</a>'


@pytest.mark.parametrize(
    ("pages", "call", "shown"),
    [
        (PAGES, "runbook_link('docs/runbooks/lag.md')", LINK.format(f"{PAGES}/runbooks/lag.md", "lag")),
        (None, "runbook_link('docs/runbooks/lag.md')", "docs/runbooks/lag.md"),
        (None, "runbook_link('https://wiki/a/lag.md')", LINK.format("https://wiki/a/lag.md", "lag")),
        (None, "runbook_link('javascript:alert(1)')", "javascript:alert(1)"),
        (
            None,
            """runbook_link('https://wiki/"><script>.md')""",
            LINK.format("https://wiki/&quot;&gt;&lt;script&gt;.md", "&quot;&gt;&lt;script&gt;"),
        ),
        (PAGES, "message_link('c', 'A1')", LINK.format(f"{PAGES}/message?cluster=c&amp;msg_id=A1", "A1")),
        (
            PAGES,
            "message_link('c', '\"<b>')",
            LINK.format(f"{PAGES}/message?cluster=c&amp;msg_id=%22%3Cb%3E", "&quot;&lt;b&gt;"),
        ),
        (None, "message_link('c', 'A1')", "A1"),
    ],
)
def test_links_where_the_address_is_known(pages: str | None, call: str, shown: str):
    with duckdb.connect() as connection:
        lint.create_tables(connection)
        connection.execute("insert into serving.publications by name select $1 as pages", [pages])
        assert connection.execute(f"select {call}").fetchall() == [(shown,)]


def test_metrics_of_a_rate_add_up_its_numerator_and_denominator():
    """A rate is never an average of rates."""
    for name, dataset in assets.read().datasets.items():
        for metric, of in dataset.metrics.items():
            if of.d3format == ".2%":
                assert "avg(" not in of.expression, (name, metric)
                assert "nullif(" in of.expression, (name, metric)


def test_the_connection_reads_no_other_file():
    extra = yaml.safe_load(bundle(assets.read(), URI)["databases/traces.yaml"])["extra"]
    arguments = json.loads(json.dumps(extra))["engine_params"]["connect_args"]
    assert arguments["read_only"] is True
    assert arguments["config"]["enable_external_access"] == "false"
    assert arguments["config"]["lock_configuration"] == "true"
    assert arguments["config"]["memory_limit"] == "2GB"
