"""The models keep to their layers, and say what they are: a lint over dbt's manifest."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from spark_jobs.checks.registry import CHECKS
from spark_jobs.mart_build import dbt
from spark_jobs.mart_build.inputs import Inputs
from spark_jobs.settings import PROJECT, Limits

MAY_READ = {
    "staging": {"source"},
    "intermediate": {"staging", "intermediate", "incremental", "fact", "seed"},
    "incremental": {"staging", "intermediate", "incremental", "fact", "seed"},
    "fact": {"intermediate", "incremental", "fact", "dimension", "seed"},
    "dimension": {"intermediate", "fact", "dimension", "seed"},
    "mart": {"intermediate", "incremental", "fact", "dimension", "seed"},
}
CLOCK = re.compile(
    r"\bcurrent_(date|time|timestamp)\b|\b(now|curdate|localtimestamp|unix_timestamp)\s*\(\s*\)",
    re.IGNORECASE,
)

Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory) -> Manifest:
    parsed = dbt.manifest(Inputs(1, {}, Limits(), change_seq_from=0), tmp_path_factory.mktemp("parsed"))
    assert parsed is not None
    return parsed.writable_manifest().to_dict(omit_none=False)


def nodes(manifest: Manifest, kind: str) -> dict[str, dict[str, Any]]:
    return {key: node for key, node in manifest["nodes"].items() if node["resource_type"] == kind}


def layer(manifest: Manifest, key: str) -> str:
    if key.startswith(("source.", "seed.")):
        return key.partition(".")[0]
    node = manifest["nodes"][key]
    folder, *rest = node["path"].split("/")
    if folder != "marts":
        return folder
    return {"facts": "fact", "dimensions": "dimension"}.get(rest[0], "mart")


def reads_beside_its_layer(manifest: Manifest) -> Iterator[str]:
    """Models that read what their layer may not. A mart by day reads the mart by hour that it is named after."""
    for key, node in nodes(manifest, "model").items():
        for read in node["depends_on"]["nodes"]:
            of_hours = layer(manifest, read) == "mart" and node["name"] == f"{read.rpartition('.')[2]}_daily"
            if layer(manifest, read) not in MAY_READ[layer(manifest, key)] and not of_hours:
                yield f"{node['name']} reads {read}"


def without_contract(manifest: Manifest) -> Iterator[str]:
    """Tables of the marts without an enforced contract, and of columns without a type."""
    for node in nodes(manifest, "model").values():
        if node["config"]["materialized"] == "audited_table":
            if not node["config"]["contract"]["enforced"]:
                yield node["name"]
            yield from (
                f"{node['name']}.{c}" for c, column in node["columns"].items() if not column["data_type"]
            )


def without_description(manifest: Manifest) -> Iterator[str]:
    """Models, and columns of them, that nothing is said of; a mart lists columns."""
    for key, node in nodes(manifest, "model").items():
        if not node["description"].strip():
            yield node["name"]
        if node["path"].startswith("marts/") and not node["columns"]:
            yield f"{key}: no columns"
        for name, column in node["columns"].items():
            if not column["description"].strip():
                yield f"{node['name']}.{name}"


def without_owner_tier_or_runbook(manifest: Manifest) -> Iterator[str]:
    """Data tests and marts that do not say whose they are and how much depends on them; tests also what to do."""
    tellers = nodes(manifest, "test") | {
        key: node for key, node in nodes(manifest, "model").items() if node["path"].startswith("marts/")
    }
    for node in tellers.values():
        meta = node["config"]["meta"]
        is_complete = meta.get("owner") and meta.get("tier") in ("integrity", "messaging")
        if node["resource_type"] == "test":
            is_complete = is_complete and (PROJECT / meta.get("runbook", "missing")).is_file()
        if not is_complete:
            yield node["name"]


def without_a_view_by_day(manifest: Manifest) -> Iterator[str]:
    """Marts by hour that no view sums to days."""
    names = {node["name"] for node in nodes(manifest, "model").values()}
    for key, node in nodes(manifest, "model").items():
        by_hour = layer(manifest, key) == "mart" and "hour" in (node["config"].get("replaces") or "")
        if by_hour and f"{node['name']}_daily" not in names:
            yield node["name"]


def without_exposure(manifest: Manifest) -> Iterator[str]:
    """Marts that no exposure reads, and checks of the marts without an exposure."""
    exposures = manifest["exposures"].values()
    read = {key for exposure in exposures for key in exposure["depends_on"]["nodes"]}
    for key, node in nodes(manifest, "model").items():
        if layer(manifest, key) == "mart" and key not in read:
            yield node["name"]
    names = {exposure["name"] for exposure in exposures}
    for check in CHECKS:
        if check.table.startswith("marts.") and f"alert_{check.name}" not in names:
            yield check.name


def without_grain(manifest: Manifest) -> Iterator[str]:
    """Tables of the marts whose key nothing tests."""
    tested = {
        test.get("attached_node")
        for test in nodes(manifest, "test").values()
        if (test.get("test_metadata") or {}).get("name") == "unique_combination_of_columns"
    }
    for key, node in nodes(manifest, "model").items():
        if node["config"]["materialized"] == "audited_table" and key not in tested:
            yield node["name"]


def without_a_stable_name(manifest: Manifest) -> Iterator[str]:
    """Generic tests named by dbt: that name has a hash of the arguments, and every change of these is another alert."""
    for node in nodes(manifest, "test").values():
        if test := node.get("test_metadata"):
            model = node["attached_node"].rpartition(".")[2]
            if node["name"] != f"{test['name']}_{model}":
                yield node["name"]


def without_a_page_of_its_own(manifest: Manifest) -> Iterator[str]:
    """Models that are not described in the YAML file of their name, beside the SQL."""
    for node in nodes(manifest, "model").values():
        if not (node["patch_path"] or "").endswith(f"/models/{node['path'].removesuffix('.sql')}.yml"):
            yield node["name"]


def reads_the_clock(manifest: Manifest) -> Iterator[str]:
    """Models and macros with a function that says what time it is."""
    for node in nodes(manifest, "model").values():
        if CLOCK.search(without_comments(node["raw_code"])):
            yield node["name"]
    for macro in manifest["macros"].values():
        if macro["package_name"] == "trace_warehouse" and CLOCK.search(without_comments(macro["macro_sql"])):
            yield macro["name"]


def without_comments(code: str) -> str:
    return re.sub(r"--.*|\{#.*?#\}", "", re.sub(r"\{#.*?#\}", "", code, flags=re.DOTALL))


RULES = [
    reads_beside_its_layer,
    without_contract,
    without_description,
    without_owner_tier_or_runbook,
    without_a_view_by_day,
    without_exposure,
    without_grain,
    without_a_stable_name,
    without_a_page_of_its_own,
    reads_the_clock,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_models_keep_the_rule(manifest, rule):
    assert list(rule(manifest)) == []


def _model(manifest: Manifest, name: str) -> dict[str, Any]:
    return manifest["nodes"][f"model.trace_warehouse.{name}"]


def _test(manifest: Manifest, name: str) -> dict[str, Any]:
    return next(test for test in nodes(manifest, "test").values() if test["name"] == name)


def _reads_staging(manifest: Manifest) -> None:
    _model(manifest, "orphan_rate")["depends_on"]["nodes"].append("model.trace_warehouse.stg_pubs")


def _reads_a_source(manifest: Manifest) -> None:
    source = next(iter(manifest["sources"]))
    _model(manifest, "int_recalls")["depends_on"]["nodes"].append(source)


def _reads_a_mart(manifest: Manifest) -> None:
    _model(manifest, "orphan_rate")["depends_on"]["nodes"].append("model.trace_warehouse.send_latency")


def _loses_its_contract(manifest: Manifest) -> None:
    _model(manifest, "orphan_rate")["config"]["contract"]["enforced"] = False


def _loses_a_type(manifest: Manifest) -> None:
    _model(manifest, "orphan_rate")["columns"]["hour"]["data_type"] = None


def _loses_a_description(manifest: Manifest) -> None:
    _model(manifest, "orphan_rate")["columns"]["hour"]["description"] = ""


def _loses_its_owner(manifest: Manifest) -> None:
    next(iter(nodes(manifest, "test").values()))["config"]["meta"] = {"tier": "integrity"}


def _loses_its_tier(manifest: Manifest) -> None:
    next(iter(nodes(manifest, "test").values()))["config"]["meta"] = {"owner": "trace-warehouse"}


def _loses_its_runbook(manifest: Manifest) -> None:
    next(iter(nodes(manifest, "test").values()))["config"]["meta"]["runbook"] = "docs/runbooks/none.md"


def _loses_its_days(manifest: Manifest) -> None:
    del manifest["nodes"]["model.trace_warehouse.orphan_rate_daily"]


def _loses_its_alert(manifest: Manifest) -> None:
    del manifest["exposures"]["exposure.trace_warehouse.alert_orphan_rate"]


def _is_read_by_nobody(manifest: Manifest) -> None:
    manifest["exposures"]["exposure.trace_warehouse.analysts_sql"]["depends_on"]["nodes"].remove(
        "model.trace_warehouse.retries_daily"
    )


def _loses_its_grain(manifest: Manifest) -> None:
    for key, test in nodes(manifest, "test").items():
        if test.get("attached_node") == "model.trace_warehouse.orphan_rate":
            del manifest["nodes"][key]


def _loses_its_name(manifest: Manifest) -> None:
    _test(manifest, "unique_combination_of_columns_orphan_rate")["name"] = (
        "unique_combination_of_columns_4f2c"
    )


def _is_described_elsewhere(manifest: Manifest) -> None:
    _model(manifest, "orphan_rate")["patch_path"] = "trace_warehouse://models/marts/hourly/marts.yml"


def _asks_the_time(manifest: Manifest) -> None:
    _model(manifest, "orphan_rate")["raw_code"] += " where hour < current_timestamp()"


@pytest.mark.parametrize(
    ("rule", "mistake"),
    [
        (reads_beside_its_layer, _reads_staging),
        (reads_beside_its_layer, _reads_a_source),
        (reads_beside_its_layer, _reads_a_mart),
        (without_contract, _loses_its_contract),
        (without_contract, _loses_a_type),
        (without_description, _loses_a_description),
        (without_owner_tier_or_runbook, _loses_its_owner),
        (without_owner_tier_or_runbook, _loses_its_tier),
        (without_owner_tier_or_runbook, _loses_its_runbook),
        (without_a_view_by_day, _loses_its_days),
        (without_exposure, _loses_its_alert),
        (without_exposure, _is_read_by_nobody),
        (without_grain, _loses_its_grain),
        (without_a_stable_name, _loses_its_name),
        (without_a_page_of_its_own, _is_described_elsewhere),
        (reads_the_clock, _asks_the_time),
    ],
    ids=lambda part: part.__name__,
)
def test_the_rule_finds_the_mistake(manifest, rule, mistake):
    mistaken = copy.deepcopy(manifest)
    mistake(mistaken)
    assert len(list(rule(mistaken))) == 1
