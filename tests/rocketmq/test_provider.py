"""The provider as anyone installs it: its wheel beside Airflow, without pyspark, on a real broker."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
import yaml

from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.group_offsets import committed_offset
from spark_jobs.settings import PROJECT
from tests.rocketmq.clean_airflow import CleanAirflow, install
from tests.rocketmq.conftest import Written
from tests.rocketmq.sending import send

PROVIDER = PROJECT / "provider"
INFO = yaml.safe_load((PROVIDER / "airflow_provider_rocketmq" / "provider.yaml").read_text())
TOPIC, GROUP = "orders", "billing"  # those of the README


def example() -> str:
    """The README's DAG."""
    return next(
        code
        for code in re.findall(r"^```python\n(.*?)^```", (PROVIDER / "README.md").read_text(), re.M | re.S)
        if "MessageQueueTrigger" in code
    )


@pytest.fixture(scope="module")
def airflow(written: Written, tmp_path_factory) -> CleanAirflow:
    folder = tmp_path_factory.mktemp("provider")
    connection = {"conn_type": "rocketmq", "host": written.sandbox.namesrv}
    return CleanAirflow(
        install(folder), folder / "airflow", {"AIRFLOW_CONN_ROCKETMQ_DEFAULT": json.dumps(connection)}
    )


def test_it_is_listed_with_its_version_and_needs_no_spark(airflow):
    about = tomllib.loads((PROVIDER / "pyproject.toml").read_text())["project"]
    listed = json.loads(airflow.output("airflow", "providers", "list", "-o", "json"))
    assert (INFO["package-name"], about["version"]) in [
        (each["package_name"], each["version"]) for each in listed
    ]
    imported = airflow.python("""
import importlib, importlib.util, json, pkgutil
import airflow_provider_rocketmq as package
names = [each.name for each in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    importlib.import_module(name)
print(json.dumps([len(names), [name for name in ("pyspark", "spark_jobs", "pyarrow") if importlib.util.find_spec(name)]]))
""")
    assert imported[0] > 20
    assert imported[1] == []


def test_the_form_of_the_connection_is_that_of_the_provider_info(airflow):
    form = airflow.python("""
import json
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService
[form] = [each for each in HookMetaService.hook_meta_data() if each.connection_type == "rocketmq"]
print(json.dumps(form.model_dump()))
""")
    [kind] = INFO["connection-types"]
    behaviour = kind["ui-field-behaviour"]
    assert form["hook_class_name"] == kind["hook-class-name"]
    assert form["hook_name"] == kind["hook-name"]
    assert list(form["extra_fields"]) == list(kind["conn-fields"])
    assert {name: each["schema"]["type"] for name, each in form["extra_fields"].items()} == {
        name: each["schema"]["type"] for name, each in kind["conn-fields"].items()
    }
    standard = form["standard_fields"]
    assert standard["url_schema"]["hidden"]
    titles = {name: standard[name]["title"] for name in behaviour["relabeling"]}
    assert titles == behaviour["relabeling"]


def test_the_connection_is_tested(airflow):
    found = airflow.python("""
import json
from airflow_provider_rocketmq.hooks.rocketmq import RocketMQHook
print(json.dumps(RocketMQHook().test_connection()))
""")
    assert found == [True, "brokers: broker-a"]


def test_the_dag_of_the_readme_runs_once_for_new_messages_and_after_a_restart(airflow, written):
    """Two triggerers run. They are killed, messages come, and one starts again."""
    sandbox = written.sandbox
    assert len([line for line in example().splitlines() if line.strip()]) <= 10
    (airflow.home / "dags" / "billing.py").write_text(example())
    send(sandbox.broker_address, TOPIC, 2)

    def committed() -> int | None:
        with Client([sandbox.namesrv]) as client:
            return sum(committed_offset(client, queue, GROUP) or 0 for queue in client.queues(TOPIC))

    def runs() -> list[str]:
        return [state for (state,) in airflow.rows("select state from dag_run order by id")]

    def read() -> list[list[str]]:
        rows = airflow.rows("select value from xcom where key = 'return_value' order by timestamp")
        return [json.loads(value) for (value,) in rows]

    with airflow.running():
        airflow.wait(lambda: runs() == ["success"])
        assert committed() == 2
        airflow.kill("triggerer", "triggerer-2")
        send(sandbox.broker_address, TOPIC, 3)
        airflow.start("triggerer")
        airflow.wait(lambda: runs() == ["success", "success"])
        assert committed() == 5
        assert [len(each) for each in read()] == [2, 3]
        assert airflow.rows("select count(*) from asset_event") == [(2,)]
