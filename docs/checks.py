"""Write docs/checks.md from the registry of the checks and their settings; `make checks` calls it."""

from __future__ import annotations

from spark_jobs.checks.check import Check
from spark_jobs.checks.registry import CHECKS
from spark_jobs.settings import PROJECT, Checks

PAGE = PROJECT / "docs" / "checks.md"
RUNBOOKS = PROJECT / "docs" / "runbooks"
HEAD = """# Checks and alerts

A check is evaluated for each entity (a cluster, topic, group, queue, test or task). `lake.ops.check_results` has the
changes and a daily summary: a row per check, entity, day (UTC) and verdict, with the number of evaluations and the least,
largest and newest value. Rows are written on `main`, even if a publication is refused. `make checks` generates this page from
`docs/checks.py`, `spark_jobs/checks/registry.py` and `spark_jobs/settings.py`; a test fails if it is out of date.
[runbooks.md](runbooks.md) lists the runbooks with a first step for each.

| check | table | fails if | class | severity | route | stage | limit |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
TAIL = """
**Class.** A failed `integrity` check stops the publication of the marts: readers keep the last good ones. `messaging`
and `freshness` checks never stop it.

**Route.** `pipeline` is for the people who operate the warehouse, `messaging` for the people who operate the
applications.

**Stage**: who runs the check.

| stage | run by |
| --- | --- |
| `merge` | the merge job; its `integrity` checks also as `gate` and as `history` |
| `gate` | the marts job, between the build and the publication |
| `marts` | the marts job, after the publication |
| `history` | the job `history_tests` of `trace_maintenance`, once a day |
| `watchdog` | `trace_watchdog`, which starts no Spark |
| `airflow` | the callbacks of Airflow's tasks, and the watchdog for itself |
| `supervisor` | the supervisor of `make up` |

**New messages.** The `integrity` checks of `merge` compare raw with events. After a merge they cover the messages that it merged;
before a publication of the marts, those since the last publication; once a day, all that were stored in the last
`integrity_days`. All recent messages are covered, too, while one of these checks has an open alert, and before a publication if
rows of events were replaced or deleted since the last one. Only an evaluation of all recent messages resolves an alert.

The audit of a merge compares the same messages as the checks after it. `offsets_contiguous`, `raw_offsets_match_data` and
`raw_is_in_events` use its result for the messages that it merged. They query them again if messages of raw were changed or
deleted since, and the last one also if events is not as the merge left it.

**Settings** (section `checks`):

| setting | meaning |
| --- | --- |
| the limits in the table | limit of all entities of the check |
| `of_entity` | limit of one entity: `{"orphan_rate:prod/orders/mail-service" = 0.05}` |
| `severity` | severity of a check: `{orphan_rate = "critical"}` |
| `off` | checks that do not run |
| `window_hours` (24) | rates are computed over this time before the watermark |
| `minimum_events` (20) | a rate of fewer events passes |
| `integrity_days` (2) | once a day, raw and events are compared for messages stored in this time |
| `broker_retention_hours` (72) | the brokers' `fileReservedTime` |

## Alerts

`lake.ops.alerts` has one row per fault. An alert opens when a check first fails for an entity. It is resolved when the
newest evaluation of the entity passes (`resolution` = `passed`), or when the entity no longer exists (`retired`). Each
sink is notified once of each.

- **Identity**: `<environment>:<table>:<check>[:<entity>]`, without a run or a time.
- **Title** (column `summary`): where, what is wrong, and the value with the limit:
  `prod: 48,211 messages wait on RMQ_SYS_TRACE_TOPIC (broker-a, queue 0), limit 10,000`. If the cluster has another name
  than the environment, it follows the environment: `prod/east: …`.
- Title, description, `value` and `threshold` are those of the newest failure.
- **A check that cannot run** fails as a whole and says nothing about its entities. Its title is
  `prod: could not be checked: <check>: <reason>`, and the reason names, for example, the broker that is down or the
  damaged metadata file.
- **A new entity**, such as a cluster that was just added, is `unknown` until the limit of the check has passed since
  the first evaluation.
- The log of the job lists alerts that were opened and resolved.

```toml
environment = "prod"

[alerts]
runbook_base_url = "https://git.example.com/trace/docs/runbooks"

[[alerts.maintenance]]          # alerts that open in this time are sent at its end, if they are still open
start = 2026-11-22T01:00:00Z
end = 2026-11-22T03:00:00Z
match = "prod:marts*"
```

Without `runbook_base_url`, an alert links to the runbook page of Airflow if the variable `AIRFLOW__API__BASE_URL` is
set (`make up` and the containers set it); otherwise it names the file. With that variable, an alert of the route
`messaging` also links to the [search of its messages](airflow.md#pages): annotation `messages_url` in Alertmanager, a
line in other notifications.

A window can also be opened by a command, without a restart. It has an end:

```
make maintenance-window FOR=2h MATCH='prod:marts*'     # without MATCH all alerts
make maintenance-window                                # the windows that are not over
make maintenance-window END=4f1c9a0b                   # before its end: the beginning of its id
```

It is in the lake, so the alerts of the supervisor, which does not read the lake, follow the settings only.

Maintenance, replays and re-extractions open such a window for the checks of the jobs that wait for them
([maintenance](maintenance.md#beside-the-writers)).

### Owners

The seed `dbt_project/seeds/owners.csv` names the team of a topic or a consumer group. Alerts of the class `messaging` on
an entity with that topic or group have the team as `owner`; the owner of the group comes before that of the topic.
Other alerts have `alerts.owner`.

```
cluster,topic,consumer_group,team,severity,route
prod,orders,,sales,,
prod,,mail-service,mail,warning,mail
```

- `severity` is the most severe that alerts of the owner are. It never raises the severity of a check, since a critical
  alert needs proof.
- `route` replaces the route of the check: it is the label `route` in Alertmanager, and a key of `alerts.apprise`. If a
  route has no recipient, its alerts go to the route of the check, and `make up` says so.

`team` is a column of `dim_topics`, `dim_consumer_groups` and `topic_consumer_groups`, and a filter of the dashboards.

## Sinks

Addresses may contain secrets, so set them in the environment. They are never logged, shown or stored:

```
TRACE_ALERTS__ALERTMANAGER='["http://am-1:9093", "http://am-2:9093"]'
TRACE_ALERTS__APPRISE='{"pipeline": ["mailto://…"], "messaging": ["slack://…"]}'
TRACE_ALERTS__HEARTBEAT_URL='https://…'
```

**Alertmanager** (API v2) gets every open alert after every run of checks, with `endsAt` three `alerts.interval_seconds`
later, so that the alert stays open while the fault lasts. A resolved alert gets `endsAt` = now. If checks take longer
than an interval, the open alerts are resent meanwhile. The labels for grouping and routing are `alertname`, `severity`,
`route`, `class`, `owner`, `environment`, `table` and `entity`. The routes below send one notification per check, to the
right people.

If brokers are down, the failed task of `trace_ingest` alerts first, and five freshness checks fail in the hour after it
for the same reason. The inhibition rules hold these back while the first alert is open. They do not inhibit checks that
report a loss. With several clusters, remove `freshness_raw` and `lag` from the rules: they would also be inhibited for
the other clusters.

```yaml
route:
  receiver: pipeline
  group_by: [environment, alertname]
  routes:
    - matchers: [route = "messaging"]
      receiver: messaging
inhibit_rules:
  - source_matchers: [alertname = "task_failed", entity =~ "trace_ingest/.*"]
    target_matchers: [alertname =~ "lag|ingest_silent|freshness_raw|freshness_events|freshness_marts"]
    equal: [environment]
  - source_matchers: [alertname = "task_failed", entity =~ "trace_marts/.*"]
    target_matchers: [alertname =~ "marts_silent|freshness_marts"]
    equal: [environment]
```

**Apprise** addresses of the alert's route get one message per check with all of its entities, when they open and when
they are resolved. Messages are plain text. Names of topics, groups and clients come from other people, so in chats
characters of markup, links and mentions are replaced by similar ones (`@` by `＠`), and line breaks are removed
everywhere.

**Test.** `make alert-test` sends a test alert of each route to the sinks that take it, and shows who accepted it. It fails
unless each route reached all of its sinks. Alertmanager resolves the test alerts by itself. Their labels are those of any
alert, with `alertname="alert_test"`, so the notifications also show the routes of Alertmanager.

**Retries.** A sink that does not answer is tried three times. Later runs send what it has not accepted: the open
alerts, and the resolutions of alerts that it accepted.

## Who notices if nothing runs

- **The watchdog** (`trace_watchdog`, `make watchdog`) runs every `interval_seconds` (300). It checks the lake first and
  notifies, then it queries the brokers; each step has a time limit. What it cannot write to the lake (the alert
  `watchdog`) is in a file below `$TRACE_HOME/watchdog`, with a copy of the open alerts, which it sends to Alertmanager
  while the lake is unavailable. If nothing went wrong, it requests `heartbeat_url`.
- **The supervisor** (`make up`) watches the watchdog and Airflow's components. It needs neither Airflow, the lake nor
  Spark, and keeps its alerts (`airflow_component`, `watchdog_silent`) in memory and in `$TRACE_HOME/supervisor`. If no
  job has sent the open alerts to Alertmanager for one and a half intervals, the supervisor sends the copy, so no alert
  is resolved because its watcher died. If the watchdog cannot run, the supervisor checks `disk_space`, too.
- **The heartbeat.** Nothing on the machine notices that the machine is off. Set `heartbeat_url` to an external dead
  man's switch; `make up` warns if it is not set. If it does not accept two heartbeats in a row, the alert
  `watchdog` opens.
- **Tasks.** `plugins/notifier.py` opens the alert `task_failed` of a task that failed after its retries, and resolves
  it when the task succeeds or the DAG no longer has it. A task that was killed may not do this; then `ingest_silent` or
  `marts_silent` fails.
"""


def _row(check: Check) -> str:
    limit = "-"
    if check.limit:
        side = "more than" if check.fails == "above" else "less than"
        limit = f"{side} `{check.limit}` ({Checks.model_fields[check.limit].default:,.10g})"
    stage = {"brokers": "watchdog"}.get(check.stage, check.stage)
    if check.stage == "merge" and check.kind == "integrity":
        stage = "merge, gate"
    name = f"[{check.name}](runbooks/{check.name}.md)"
    cells = (
        name,
        f"`{check.table}`",
        check.definition,
        check.kind,
        check.severity,
        check.route,
        stage,
        limit,
    )
    return f"| {' | '.join(cells)} |\n"


def render() -> str:
    """The whole page."""
    return HEAD + "".join(map(_row, CHECKS)) + TAIL


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"wrote {PAGE.relative_to(PROJECT)}")
