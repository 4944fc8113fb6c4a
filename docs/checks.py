"""Write docs/checks.md from the registry of the checks and their settings; `make checks` calls it."""

from __future__ import annotations

from spark_jobs.checks.check import Check
from spark_jobs.checks.registry import CHECKS
from spark_jobs.settings import PROJECT, Checks

PAGE = PROJECT / "docs" / "checks.md"
RUNBOOKS = PROJECT / "docs" / "runbooks"
HEAD = """# Checks and alerts

Each run of a check writes a row per entity (a cluster, topic, group, queue, test or task) to `lake.ops.check_results`,
on main, also when a publication is refused. This table is made by `make checks` from `spark_jobs/checks/registry.py`
and `spark_jobs/settings.py`; a test fails when it is out of date.

| check | judges | it fails when | class | severity | route | made by | limit |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
TAIL = """
**Class.** A failed `integrity` check stops the publication of the marts: readers keep the last good ones. `messaging` and
`freshness` checks never stop it. **Made by**: `merge` checks are made by the merge job, `gate` checks between the build of
the marts and their publication, `marts` checks after it, `history` checks once a day by `trace_maintenance`, `watchdog`
checks by `trace_watchdog` without Spark, `airflow` ones by the callbacks of Airflow's tasks and by the watchdog of itself,
`supervisor` ones by the process that keeps Airflow running under `make up`.

**Settings** (section `checks`): the limits above; `of_entity` sets the limit of one entity, as in
`{"orphan_rate:prod/orders/mail-service" = 0.05}`; `severity` sets a check's severity; `off` names checks that are not
made. Rates are of the last `window_hours` (24) before the watermark and pass with fewer than `minimum_events` (20). The
comparison of raw with events looks at messages stored in the last `integrity_days` (2). `broker_retention_hours` (72) is
the brokers' `fileReservedTime`.

## Alerts

`lake.ops.alerts` has a row a fault: it opens with the first failure of an entity, people are told once, and it is resolved
when the newest evaluation of the entity passes or the entity is no longer there to be judged (`resolution` is `retired`).
Its identity is `<environment>:<table>:<check>[:<entity>]`, without run or time. Its title (column `summary`) says where, what is
wrong, and the value against the limit: `prod: 48,211 messages wait on RMQ_SYS_TRACE_TOPIC (broker-a, queue 0), limit 10,000`;
behind the environment stands the cluster, where that has another name. Title, description, `value` and `threshold` are those of
the newest failure. A check that cannot be made fails as a whole and says nothing of its entities; the title of that is
`prod: could not be checked: <check>: <reason>`, and a broker that is down, or a damaged metadata file, is named there.
What opened and what was resolved is in the log of the job, too.

```toml
environment = "prod"

[alerts]
runbook_base_url = "https://git.example.com/trace/docs/runbooks"

[[alerts.maintenance]]          # what opens in this time goes out at its end, if it still stands
start = 2026-11-22T01:00:00Z
end = 2026-11-22T03:00:00Z
match = "prod:marts*"
```

Without `runbook_base_url` an alert links to Airflow's own page of its runbook, where the variable `AIRFLOW__API__BASE_URL` says
where that is (`make up` and the containers set it); else it names the file.

Maintenance opens such a window by itself for the checks that would find its waiting jobs silent
([maintenance](maintenance.md#beside-the-writers)).

Addresses may hold secrets, so they come from the environment, and are never logged, shown or stored:

```
TRACE_ALERTS__ALERTMANAGER='["http://am-1:9093", "http://am-2:9093"]'
TRACE_ALERTS__APPRISE='{"pipeline": ["mailto://…"], "messaging": ["slack://…"]}'
TRACE_ALERTS__HEARTBEAT_URL='https://…'
```

- **Alertmanager** (API v2) is sent every open alert by every round of checks, with `endsAt` three
  `alerts.interval_seconds` after the moment of sending, so that it stays while the fault stands; a resolved one with `endsAt`
  now. A round that takes longer than an interval sends the open alerts again meanwhile. Alertmanager
  groups and routes by the labels `alertname`, `severity`, `route`, `class`, `owner`, `environment`, `table`, `entity`.
  One notification a check, to the right people, is a route of its configuration. Where brokers are away, a failed task of
  `trace_ingest` tells first, and five checks of late data tell of the same thing in the hour after. Rules of
  inhibition keep that back while the first alert stands; the checks that tell of a loss are not among them, nor, with several
  clusters, should `freshness_raw` and `lag` be: another cluster's would be kept back too.

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

- **Apprise** addresses of the alert's route get one message a check with all of its entities, once when they open and
  once when they are resolved. Messages are plain text: names of topics, groups and clients are written by other people, so
  in chats signs of markup, links and mentions in them are replaced by others that look alike (`@` by `＠`), and nowhere do they
  break a line.
- A sink that does not answer is asked three times, then by the later runs, until it has taken what it lacks: what is open, and
  the end of what it was told of.
- **Routes**: `pipeline` is for those who run the warehouse, `messaging` for those who run the applications.
- **The watchdog** (`trace_watchdog`, `make watchdog`) runs every `interval_seconds` (300). What it cannot put into the lake
  (the alert `watchdog`: the lake is away, a sink does not answer) stands in a file below `$TRACE_HOME/watchdog`, with a copy of
  what is open, which is sent to Alertmanager while the lake is away. It tells what it knows of the lake before it asks the
  brokers, and all of it has an end. After a run in which all went well it asks `heartbeat_url`.
- **The supervisor** (`make up`) watches the watchdog and Airflow's components. It needs neither Airflow, the lake nor
  Spark, and keeps its alerts (`airflow_component`, `watchdog_silent`) in memory and in `$TRACE_HOME/supervisor`. When no job
  has sent Alertmanager the open alerts for one and a half intervals it sends the copy again, so nothing is resolved because
  its watcher died. When the watchdog cannot run it checks `disk_space` as well. Nothing on this machine notices when the whole
  machine is off: that is what `heartbeat_url` is for, and `make up` says at each start when it is not set.
- **What was never there**, such as a cluster that was just added, is `unknown` until the check's limit has passed since it was
  first looked for.
- **Tasks**: `plugins/notifier.py` makes the alert `task_failed` of a task that failed after its retries, and resolves it
  when the task succeeds or its DAG has it no more. A task that was killed may never get to it; then `ingest_silent` or
  `marts_silent` fires.
"""


def _row(check: Check) -> str:
    limit = "-"
    if check.limit:
        side = "more than" if check.fails == "above" else "less than"
        limit = f"{side} `{check.limit}` ({Checks.model_fields[check.limit].default:,g})"
    made_by = {"brokers": "watchdog"}.get(check.stage, check.stage)
    if check.stage == "merge" and check.kind == "integrity":
        made_by = "merge, gate"
    name = f"[{check.name}](runbooks/{check.name}.md)"
    cells = (
        name,
        f"`{check.table}`",
        check.definition,
        check.kind,
        check.severity,
        check.route,
        made_by,
        limit,
    )
    return f"| {' | '.join(cells)} |\n"


def render() -> str:
    """The whole page."""
    return HEAD + "".join(map(_row, CHECKS)) + TAIL


if __name__ == "__main__":
    PAGE.write_text(render())
    print(f"wrote {PAGE.relative_to(PROJECT)}")
