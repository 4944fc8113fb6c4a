"""Every setting of the warehouse, in one place.

Values come, first match wins, from environment variables (`TRACE_…`, nested with `__`, as in
`TRACE_LIMITS__GRACE_SECONDS=60`), then from the TOML file that `TRACE_SETTINGS` names, then from
the defaults here. A cluster's secrets have no field: `Cluster.credentials_env` names the variables that hold
them. Addresses of `Alerts` may hold secrets: they are never shown; set them in the environment.
"""

from __future__ import annotations

import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    AwareDatetime,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from spark_jobs import settings_error
from spark_jobs.rocketmq.librocketmq.limits import NO_FACTS, NO_TLS, OFFICIAL, REMOTING, ClientName
from spark_jobs.rocketmq.namespace import with_namespace
from spark_jobs.settings_deployment import Catalog, Spark, Warehouse, contradiction
from spark_jobs.settings_error import SettingsError
from spark_jobs.settings_section import Section

PROJECT = Path(__file__).resolve().parent.parent
DEFAULT_TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
CATALOG = "lake"  # name of the Iceberg catalog
TRACE_URL_NAMES = ("cluster", "topic", "msg_id", "key", "published_ms")  # placeholders of lookup.trace_url
NO_CLUSTER = "no cluster is configured: name a settings file in TRACE_SETTINGS"


class ClusterTls(Section):
    """How to speak TLS with a cluster; the files must be on the driver and on every executor."""

    ca_file: str | None = Field(default=None, description="PEM authorities to trust; unset: the system's")
    cert_file: str | None = Field(default=None, description="PEM certificate of this client")
    key_file: str | None = Field(default=None, description="PEM key of this client")
    verify: bool = Field(default=True, description="check the server's certificate")


class Cluster(Section):
    """One RocketMQ cluster and the trace topics to read from it."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9_.-]+$", description="column `cluster` of all tables; never change it"
    )
    namesrv: list[str] = Field(min_length=1, description="nameservers, each host:port")
    trace_topics: list[str] = Field(
        default=[DEFAULT_TRACE_TOPIC], min_length=1, description="topics that its clients write traces to"
    )
    namespace: str | None = Field(
        default=None, description="of the instance that the topics belong to; system topics have none"
    )
    credentials_env: str | None = Field(
        default=None,
        description="prefix of the variables <prefix>_ACCESS_KEY, <prefix>_SECRET_KEY and, "
        "where one is used, <prefix>_SECURITY_TOKEN",
    )
    airflow_conn_id: str | None = Field(
        default=None,
        description="Airflow connection that the DAGs fill those variables from: login is the access key, "
        "password the secret key, the extra `security_token` the token",
    )
    tls: ClusterTls | None = Field(default=None, description="section below; unset: plain TCP")
    consumer_group: str | None = Field(
        default=None, description="group that pulls name; unset: TOOLS_CONSUMER, which every broker has"
    )

    client: ClientName = Field(
        default=REMOTING,
        description="what reads the cluster: the project's own client, or the native library of the package "
        "rocketmq-client-python (docs/decisions/official_client.md)",
    )
    broker_facts: bool = Field(
        default=True, description="false: this cluster's brokers are not asked for broker facts"
    )

    @property
    def topics(self) -> list[str]:
        """The trace topics by their names on the broker."""
        return [with_namespace(topic, self.namespace) for topic in self.trace_topics]

    @model_validator(mode="after")
    def _connection_fills_variables(self) -> Cluster:
        if self.airflow_conn_id and not self.credentials_env:
            raise ValueError("airflow_conn_id needs credentials_env: the variables that it fills")
        return self

    @model_validator(mode="after")
    def _client_speaks_tls(self) -> Cluster:
        if self.tls and self.client == OFFICIAL:
            raise ValueError(NO_TLS)
        return self

    @field_validator("namesrv", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return value.replace(",", ";").split(";") if isinstance(value, str) else value

    @field_validator("namesrv")
    @classmethod
    def _host_port(cls, value: list[str]) -> list[str]:
        for address in value:
            host, _, port = address.rpartition(":")
            if not host or not port.isdigit():
                raise ValueError(f"nameserver {address!r} is not host:port")
        return value


class Extract(Section):
    """Bounds of one extraction."""

    margin_seconds: int = Field(
        default=60,
        ge=0,
        description="a queue read to its end is complete up to the planning time less this; "
        "covers clock differences between the brokers and this machine",
    )
    max_offsets_per_run: int = Field(
        default=5_000_000, ge=1, description="trace messages that one run reads of a cluster at most"
    )
    max_offsets_per_partition: int = Field(
        default=50_000, ge=1, description="trace messages that one Spark task reads at most"
    )
    max_inflated_bytes: int = Field(
        default=32 * 1024 * 1024,
        ge=1,
        description="a compressed body that is larger than this when inflated is kept as invalid",
    )
    wait_seconds: float = Field(
        default=30,
        ge=0,
        description="how long the merge waits, after the other clusters, for one that answers and of which nothing is "
        "published yet",
    )


class BrokerFacts(Section):
    """The requests to the brokers with each extraction (docs/broker_facts.md), and their limits."""

    enabled: bool = Field(default=True, description="false: the brokers are asked nothing")
    requests_in_flight: int = Field(
        default=4,
        ge=1,
        le=4,
        description="per broker; its threads for them also serve the locks of orderly consumers",
    )
    timeout_seconds: float = Field(default=5, gt=0, description="how long to wait for an answer")
    deadline_seconds: float = Field(
        default=30, gt=0, description="how long one collection may ask a cluster; what is left is unknown"
    )
    offsets_minutes: float = Field(
        default=10, ge=0, description="offsets of a topic, or of a group, add a row at most so often"
    )
    jump_messages: int = Field(
        default=10_000,
        ge=1,
        description="but at once where the backlog of a queue shrank by more: it was skipped, or caught up",
    )
    checked_messages: int = Field(
        default=100,
        ge=0,
        le=1000,
        description="suspected messages, each of one group, that one collection looks up at the brokers; 0: none",
    )
    checked_hours: int = Field(
        default=24, ge=1, le=168, description="only messages that were published in so many hours"
    )
    recheck_minutes: float = Field(
        default=60, ge=0, description="a message whose state may change is looked up again after so long"
    )


class Lineage(Section):
    """Where OpenLineage events of Airflow and Spark go; a sink that is away fails no task."""

    url: str | None = Field(default=None, description="such as http://10.0.0.9:5000; unset: no events")
    timeout_seconds: int = Field(default=2, ge=1, description="how long one event may take")


class Limits(Section):
    """The limits that the models' definitions name (docs/definitions.md)."""

    grace_seconds: int = Field(
        default=15 * 60, ge=0, description="how long records may be late before something is decided"
    )
    consume_timeout_seconds: int = Field(
        default=15 * 60,
        ge=0,
        description="consumeTimeout of the consumers: an attempt without an end is `not_returned` after it and the grace",
    )
    retry_horizon_seconds: int = Field(
        default=5 * 3600,
        ge=0,
        description="a message may be retried for so long after its publication; a delayed one also for `max_delay_seconds`",
    )
    max_delay_seconds: int = Field(
        default=2 * 3600,
        ge=0,
        description="longest delay of a delayed message, and longest pause between two retries",
    )
    expected_group_lookback_days: int = Field(
        default=7,
        ge=1,
        description="a group that consumed from a topic is expected to consume its messages for so long",
    )
    backlog_seconds: int = Field(
        default=24 * 3600, ge=0, description="a message that a group has not reached is no orphan for so long"
    )
    offsets_lag_seconds: int = Field(
        default=15 * 60,
        ge=0,
        description="recorded offsets are behind by at most this; not less than broker_facts.offsets_minutes",
    )
    max_retry_times: int = Field(default=16, ge=0, description="maxReconsumeTimes of the consumers")
    event_time_past_days: int = Field(
        default=7, ge=0, description="a client's time that is longer before the store time is suspect"
    )
    event_time_ahead_seconds: int = Field(
        default=10 * 60, ge=0, description="a client's time that is longer after the store time is suspect"
    )


Severity = Literal["critical", "warning", "info"]
Route = Literal["pipeline", "messaging"]


class Checks(Section):
    """When a check fails: the limits that docs/checks.md names."""

    integrity_days: int = Field(
        default=2, ge=1, description="raw and events are compared for messages stored since"
    )
    window_hours: int = Field(
        default=24, ge=1, description="counts and rates are of this long before the watermark, or before now"
    )
    minimum_events: int = Field(default=20, ge=1, description="a rate of fewer passes")
    broker_retention_hours: float = Field(
        default=72, gt=0, description="the brokers' fileReservedTime: messages older than this are deleted"
    )
    row_count_drop: float = Field(
        default=0.1, description="share of a fact's rows gone since it was published"
    )
    invalid_rate: float = Field(default=0.01, description="share of records that no layout fits")
    unknown_writers: float = Field(
        default=0.01, description="share of the trace messages from hosts without a known client"
    )
    freshness_raw_minutes: float = Field(
        default=30, description="a queue is complete in raw up to a time so long ago"
    )
    freshness_events_minutes: float = Field(default=30, description="the same in events")
    freshness_marts_minutes: float = Field(default=60, description="the same in the published marts")
    ingest_silent_minutes: float = Field(default=20, description="no extraction has published for so long")
    marts_silent_minutes: float = Field(
        default=45, description="marts are due and none were published for so long"
    )
    lag_messages: float = Field(default=1_000_000, description="unread trace messages of a queue")
    retention_headroom_hours: float = Field(
        default=24, description="the broker deletes the oldest unread message in less than this"
    )
    completeness: float = Field(default=0.9, description="share of the consumer records that arrived")
    clock_skew_ms: float = Field(
        default=30_000, description="how far a client's clock may be ahead, or its latencies below zero"
    )
    duplicate_rate: float = Field(default=0.05, description="share of deliveries with a duplicate attempt")
    group_silent_minutes: float = Field(
        default=60,
        gt=0,
        description="a group has attempted nothing for so long since a message was sent to it",
    )
    orphan_rate: float = Field(
        default=0.01, description="share of the judged messages that are orphans without proof"
    )
    orphans_proven: float = Field(
        default=0.001, description="share of the judged messages that are proven orphans"
    )
    disk_free_share: float = Field(
        default=0.05, description="share of a disk, or of its inodes, that must be free"
    )
    watchdog_silent_intervals: float = Field(
        default=3, gt=0, description="`alerts.interval_seconds` without a run of the watchdog"
    )
    of_entity: dict[str, float] = Field(
        default={}, description="limit of one entity in place of the above: `<check>:<entity>` to the limit"
    )
    severity: dict[str, Severity] = Field(default={}, description="check to its severity here")
    off: list[str] = Field(default=[], description="checks that are not made")


class Schedules(Section):
    """When the DAGs run: cron expressions, UTC; and what one Spark application does."""

    ingest: str = Field(
        default="*/5 * * * *",
        description="`trace_ingest`; if it runs less often, raise `checks.freshness_*_minutes` and `checks.*_silent_minutes`",
    )
    poll_seconds: float = Field(
        default=5,
        ge=0,
        description="the triggerer asks the brokers so often for unread messages, which start `trace_ingest`, too (section "
        "`freshness`); 0: it does not ask",
    )
    marts: str = Field(
        default="*/15 * * * *", description="`trace_marts`, which also runs when records were ingested"
    )
    maintenance: str = Field(default="17 3 * * *", description="`trace_maintenance`")
    rebuild: str = Field(
        default="23 * * * *", description="`trace_rebuild`, which starts Spark only if models have changed"
    )
    marts_with_ingest: bool | None = Field(
        default=None,
        description="`trace_ingest` builds the marts of few new records, too, in its Spark application; not where the tasks "
        "of Airflow run on machines that do not share `TRACE_HOME`; unset: where `make up` keeps a driver",
    )

    @field_validator("ingest", "marts", "maintenance", "rebuild")
    @classmethod
    def _is_cron(cls, value: str) -> str:
        from croniter import croniter  # imported by Airflow, too; most jobs start without it

        if not croniter.is_valid(value):
            raise ValueError("not a cron expression, such as */5 * * * *")
        return value


class Freshness(Section):
    """When unread trace messages start `trace_ingest`, between the times of `schedules.ingest`: what comes first."""

    seconds: float = Field(
        default=10, ge=0, description="the broker stored the oldest unread message of a cluster so long ago"
    )
    messages: int = Field(default=10_000, ge=1, description="a cluster has so many unread messages")


class Driver(Section):
    """A Spark driver that stays between the runs of `trace_ingest` and `trace_marts`."""

    enabled: bool = Field(
        default=True,
        description="`make up` keeps one, if `spark.master` is local and no lineage is sent; its heap, of at most "
        "`spark.driver_memory`, stays in use between the runs",
    )
    most_jobs: int = Field(default=500, ge=1, description="after so many jobs it ends, and is started again")


class Rebuild(Section):
    """How the rows of changed models are computed again."""

    at_once_records: int = Field(
        default=2_000_000,
        ge=0,
        description="with up to so many records in `lake.events.trace_records`, `trace_marts` computes all rows of changed "
        "models; with more, `trace_rebuild` does, and `trace_marts` goes on with the published ones",
    )


class Cleanup(Section):
    """What is kept of Airflow; `[[maintenance]]` has the policies of the lake's tables."""

    airflow_days: int = Field(
        default=30,
        ge=2,
        description="rows of runs, tasks and events in Airflow's database, and logs of tasks, are removed after so many days",
    )


class MaintenanceWindow(Section):
    """A time in which alerts that open are held back; what still stands at its end goes out then."""

    start: AwareDatetime = Field(description="with its offset from UTC, such as 2026-11-24T22:00:00Z")
    end: AwareDatetime = Field(description="after it, what is still open is sent")
    match: str = Field(default="*", description="pattern (*, ?) of the identities that are held back")


def pages_url() -> str | None:
    """The address of the pages in Airflow's web server; None where `AIRFLOW__API__BASE_URL` does not say where that is."""
    base = os.environ.get("AIRFLOW__API__BASE_URL")
    return f"{base.rstrip('/')}/trace-warehouse" if base else None


def _runbooks() -> str:
    pages = pages_url()
    return f"{pages}/runbooks" if pages else "docs/runbooks"


class Alerts(Section):
    """Whom to tell. With no address alerts stand in `lake.ops.alerts` and in the log."""

    interval_seconds: int = Field(
        default=300,
        ge=1,
        description="how often the watchdog runs; Alertmanager keeps an alert for three times that",
    )
    alertmanager: list[SecretStr] = Field(
        default=[], description="base URL of each Alertmanager of the cluster, such as http://am-1:9093"
    )
    apprise: dict[str, list[SecretStr]] = Field(
        default={},
        description="Apprise URLs by route: pipeline, messaging and those of the seed owners; such as {pipeline = ['slack://…']}",
    )
    heartbeat_url: SecretStr | None = Field(
        default=None,
        description="of an outside dead-man's switch: asked (GET) by each watchdog run that went well",
    )
    runbook_base_url: str = Field(
        default_factory=_runbooks,
        description="folder of the runbooks, as a link; unset: Airflow's page of them, where "
        "AIRFLOW__API__BASE_URL says where that is",
    )
    owner: str = Field(
        default="data-platform",
        description="owner of results, and of alerts on what the seed `owners` does not name",
    )
    maintenance: list[MaintenanceWindow] = Field(
        default=[],
        description="maintenance windows, section below; `make maintenance-window` adds one without a change here",
    )

    def reach(self, route: str) -> bool:
        """Whether alerts of the route are sent to anyone."""
        return bool(self.alertmanager or self.apprise.get(route))


class Serving(Section):
    """The DuckDB file below `home`/serving that each publication writes."""

    copied_rows: int = Field(
        default=1_000_000,
        ge=0,
        description="facts with more rows are not copied into the file: it reads their Parquet files in place",
    )
    keep_minutes: float = Field(
        default=60, ge=0, description="a file that was superseded stays readable for so long"
    )


class Lookup(Section):
    """The look-up of a message: `make message`, and the page in Airflow."""

    trace_url: str | None = Field(
        default=None,
        description="link to the trace of an APM such as SkyWalking or Jaeger, with the placeholders {cluster}, {topic}, "
        "{msg_id}, {key} (the first user key) and {published_ms}; such as "
        "http://jaeger:16686/search?service=orders&tags=%7B%22messaging.message.id%22%3A%22{msg_id}%22%7D",
    )

    @field_validator("trace_url")
    @classmethod
    def _is_a_template(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not value.startswith(("http://", "https://")):
            raise ValueError("trace_url is not an http:// or https:// address")
        names = dict.fromkeys(TRACE_URL_NAMES, "")
        try:
            value.format(**names)
        except (KeyError, IndexError, ValueError) as error:
            known = ", ".join(f"{{{name}}}" for name in names)
            raise ValueError(f"trace_url has a placeholder that is none of {known}: {error}") from error
        return value


class Metrics(Section):
    """The endpoint that Prometheus scrapes (docs/metrics.md). Without a token it refuses."""

    token_env: str | None = Field(
        default=None, description="environment variable of Airflow's web server that holds the token"
    )
    token_file: Path | None = Field(
        default=None,
        description="file that holds the token, read with each scrape; in place of `token_env`",
    )
    series: int = Field(
        default=5_000,
        ge=1,
        description="most series of one metric; topics and groups with less traffic are left out and counted",
    )
    refresh_seconds: float = Field(
        default=15,
        ge=0,
        description="the lake and Airflow's database are read at most so often; the marts, once per publication",
    )

    @model_validator(mode="after")
    def _one_token(self) -> Metrics:
        if self.token_env and self.token_file:
            raise ValueError("set token_env or token_file, not both")
        return self


# The namespaces whose rows maintenance drops by age.
WITH_RETENTION = ("raw", "events", "broker_facts", "ops")


class TablePolicy(Section):
    """What maintenance does to the tables that a pattern names; for each table the first row that matches counts."""

    tables: str = Field(description="names without the catalog, `*` for any text")
    pool: Literal["lake_publish", "lake_marts"] = Field(
        default="lake_publish", description="Airflow pool of those who write them: maintenance takes its slot"
    )
    target_file_mb: int = Field(default=128, ge=1, description="size of the files that compaction writes")
    compact_files: int | None = Field(
        default=5,
        ge=2,
        description="rewrite a partition with so many files below 3/4 of the target; unset: none",
    )
    max_manifests: int | None = Field(
        default=50, ge=1, description="rewrite the manifests above so many; unset: never"
    )
    snapshots_days: float = Field(default=1, ge=0, description="expire older snapshots")
    keep_snapshots: int = Field(default=20, ge=1, description="but never the newest ones of main")
    safe_days: float = Field(
        default=3,
        ge=1,
        description="remove files that no snapshot has, and branches of dead runs, when they are older; "
        "longer than any job may run",
    )
    retention_days: int | None = Field(default=None, ge=1, description="drop older rows; unset: keep all")
    retention_column: str = Field(default="store_time", description="the age of a row is that of this column")

    @model_validator(mode="after")
    def _rows_are_no_marts(self) -> TablePolicy:
        namespace = self.tables.partition(".")[0]
        if self.retention_days is not None and namespace not in WITH_RETENTION:
            raise ValueError(
                f"retention_days needs tables of {', '.join(WITH_RETENTION)}, not {self.tables}: rows of the marts are kept"
            )
        return self


_ADDED_TO = TablePolicy(tables="intermediate.int_message_hours", pool="lake_marts", keep_snapshots=3)
# A run of the marts replaces whole partitions of these, so there is nothing to compact.
_REBUILT = TablePolicy(
    tables="marts.*", pool="lake_marts", compact_files=None, max_manifests=None, keep_snapshots=3
)
TABLE_POLICIES = (
    TablePolicy(tables="raw.trace_messages", retention_days=90),
    TablePolicy(tables="events.trace_records", retention_days=400),
    TablePolicy(tables="broker_facts.observations", retention_days=400, retention_column="observed_at"),
    TablePolicy(tables="broker_facts.message_checks", retention_days=400, retention_column="checked_at"),
    # Rows that are still valid have no valid_to, so they are kept whatever their age.
    TablePolicy(tables="broker_facts.*", retention_days=400, retention_column="valid_to"),
    TablePolicy(tables="ops.replaced_records", retention_days=400),
    TablePolicy(
        tables="ops.publications", pool="lake_marts", retention_days=30, retention_column="created_at"
    ),
    TablePolicy(tables="ops.check_results", retention_days=90, retention_column="evaluated_at"),
    TablePolicy(tables="ops.*"),
    # Indexes and facts, to which a run adds files.
    _ADDED_TO,
    *(
        _ADDED_TO.model_copy(update={"tables": name})
        for name in (
            "intermediate.int_identifier_hours",
            "marts.fct_*",
            "marts.orphaned_messages",
            "marts.dead_letters",
        )
    ),
    _REBUILT,
    _REBUILT.model_copy(update={"tables": "intermediate.*"}),
    _REBUILT.model_copy(update={"tables": "staging.*"}),
    TablePolicy(tables="*", compact_files=None, max_manifests=None),
)


class Settings(BaseSettings):
    """The whole configuration; `Settings()` reads the environment and the settings file.

    It raises `SettingsError` where they cannot be used; programs call `load_settings`.
    """

    model_config = SettingsConfigDict(
        env_prefix="TRACE_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    home: Path = Field(default=Path("var"), description="all state of an embedded run")
    environment: str = Field(
        default="local", description="name of this installation, in its alerts and its OpenLineage events"
    )
    clusters: list[Cluster] = []
    catalog: Catalog = Catalog()
    warehouse: Warehouse = Warehouse()
    spark: Spark = Spark()
    extract: Extract = Extract()
    broker_facts: BrokerFacts = BrokerFacts()
    limits: Limits = Field(default=Limits(), validate_default=True)
    lineage: Lineage = Lineage()
    checks: Checks = Checks()
    alerts: Alerts = Field(default_factory=Alerts)
    schedules: Schedules = Schedules()
    freshness: Freshness = Freshness()
    rebuild: Rebuild = Rebuild()
    driver: Driver = Driver()
    cleanup: Cleanup = Cleanup()
    serving: Serving = Serving()
    lookup: Lookup = Lookup()
    metrics: Metrics = Metrics()
    maintenance: tuple[TablePolicy, ...] = Field(
        default=TABLE_POLICIES, description="rows given here stand before these"
    )

    def __init__(self, **given: Any):
        try:
            settings_error.check_variables(type(self))
            super().__init__(**given)
        except SettingsError:
            raise
        except (ValueError, OSError) as error:  # pydantic's and those of the file's text are ValueErrors
            raise settings_error.explain(error, type(self), given) from None

    @field_validator("limits")
    @classmethod
    def _offsets_are_recorded_in_time(cls, value: Limits, info: ValidationInfo) -> Limits:
        facts = info.data.get("broker_facts")  # None where it is invalid itself
        if facts is not None and value.offsets_lag_seconds < facts.offsets_minutes * 60:
            raise ValueError("offsets_lag_seconds must not be less than broker_facts.offsets_minutes")
        return value

    @field_validator("home")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().resolve()

    @field_validator("maintenance")
    @classmethod
    def _then_the_defaults(cls, value: tuple[TablePolicy, ...]) -> tuple[TablePolicy, ...]:
        return value if value[-len(TABLE_POLICIES) :] == TABLE_POLICIES else (*value, *TABLE_POLICIES)

    @model_validator(mode="after")
    def _clients_can_ask_for_facts(self) -> Settings:
        for cluster in self.clusters:
            if cluster.client == OFFICIAL and cluster.broker_facts and self.broker_facts.enabled:
                raise ValueError(f"cluster {cluster.name}: {NO_FACTS}")
        return self

    @model_validator(mode="after")
    def _deployment_is_possible(self) -> Settings:
        if found := contradiction(self.catalog, self.warehouse, self.spark):
            raise ValueError(found)
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        if path := os.environ.get("TRACE_SETTINGS"):
            settings_error.check_file(path)
            sources += (TomlConfigSettingsSource(settings_cls, toml_file=path),)
        return sources

    @property
    def catalog_uri(self) -> str:
        """The catalog's address, with `jdbc:` where it is a database."""
        return self.catalog.uri or f"jdbc:sqlite:{self.home / 'catalog.db'}"

    @property
    def warehouse_uri(self) -> str:
        """The location of the tables, without a slash at its end.

        Of a folder it is `file:/…`, as Hadoop writes paths: with `file:///…` a table's location and its files would have
        different prefixes, and Iceberg's `rewrite_table_path` could not move it. Iceberg unquotes nothing in it.
        """
        return self.warehouse.uri or f"file:{self.home / 'warehouse'}"

    def table_policy(self, table: str) -> TablePolicy:
        """What maintenance does to a table, by its name without the catalog."""
        return next(row for row in self.maintenance if fnmatchcase(table, row.tables))

    @property
    def some_clusters(self) -> list[Cluster]:
        """The clusters, for a job that has nothing to do without one.

        Raises:
            SettingsError: there is none.
        """
        if not self.clusters:
            raise SettingsError(NO_CLUSTER)
        return self.clusters

    def cluster(self, name: str) -> Cluster:
        """The cluster of that name.

        Raises:
            SettingsError: no such cluster is configured; the message names those that are.
        """
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        known = ", ".join(c.name for c in self.clusters) or "none"
        raise SettingsError(f"cluster {name!r} is not configured (configured: {known})")


def load_settings(**given: Any) -> Settings:
    """`Settings()` for a program: ends it with one line and exit code 2 where a setting cannot be used."""
    try:
        return Settings(**given)
    except SettingsError as error:
        print(f"failed: {error}", file=sys.stderr, flush=True)
        sys.exit(2)
