"""The files for Prometheus: promtool accepts them, and they name metrics and labels that exist."""

from __future__ import annotations

import re
import shutil

import yaml

from plugins.trace_warehouse import PREFIX as PAGES
from spark_jobs.metrics.registry import METRICS
from spark_jobs.settings import PROJECT
from tests.plugins.prometheus import needs_prometheus, promtool

FOLDER = PROJECT / "deploy" / "prometheus"
LABELS = {metric.full_name: set(metric.labels) for metric in METRICS}


@needs_prometheus
def test_rules():
    promtool("check", "rules", str(FOLDER / "rules.yml"))
    promtool("test", "rules", str(FOLDER / "rules_test.yml"))


@needs_prometheus
def test_the_configuration(tmp_path):
    for name in ("prometheus.yml", "rules.yml"):
        shutil.copy(FOLDER / name, tmp_path)
    (tmp_path / "metrics.token").write_text("x" * 16)
    promtool("check", "config", str(tmp_path / "prometheus.yml"))
    (job,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    assert job["metrics_path"] == f"{PAGES}/metrics"
    assert f'job="{job["job_name"]}"' in (FOLDER / "rules.yml").read_text()


def test_rules_name_metrics_and_labels_that_exist():
    for file in ("rules.yml", "rules_test.yml"):
        found = re.findall(r"\b(rocketmq_trace_\w+)(?:\{([^}]*)\})?", (FOLDER / file).read_text())
        assert len(found) > 10
        for name, selectors in found:
            assert name in LABELS
            assert set(re.findall(r"(\w+)[=!]", selectors)) <= LABELS[name] | {"instance"}


def test_each_rule_has_a_test():
    (group,) = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"]
    tests = yaml.safe_load((FOLDER / "rules_test.yml").read_text())["tests"]
    fired = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each["exp_alerts"]}
    assert fired == {rule["alert"] for rule in group["rules"]}
