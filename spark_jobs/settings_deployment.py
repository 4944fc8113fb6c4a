"""The sections that say where the warehouse runs: its catalog, its files and its Spark. `docs/deployment.md` explains them.

`spark_jobs/lake/deployment.py` derives from them the properties of Spark and pyiceberg.
"""

from __future__ import annotations

import ipaddress
import os
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, field_validator, model_validator

from spark_jobs.settings_section import Section, secrets

# Parameters of a URL that hold a secret or name its owner, in any case of letters.
_SECRET_PARAMETERS = ("user", "password", "sslpassword", "token", "credential")


def _has_secret(uri: str) -> bool:
    address = urlsplit(uri.removeprefix("jdbc:"))
    names = {name.lower() for name, _ in parse_qsl(address.query, keep_blank_values=True)}
    return "@" in address.netloc or not names.isdisjoint(_SECRET_PARAMETERS)


# The parameters of a Postgres address: the name that its JDBC driver knows to that of libpq, which pyiceberg connects with.
POSTGRES_PARAMETERS = {
    **{name: name for name in ("sslmode", "sslrootcert", "sslcert", "sslkey", "options")},
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "targetServerType": "target_session_attrs",
}


class Catalog(Section):
    """The Iceberg catalog `lake`."""

    kind: Literal["sqlite", "postgres", "rest"] = Field(
        default="sqlite", description="sqlite: a file, for one machine; postgres: Iceberg's JDBC catalog"
    )
    uri: str | None = Field(
        default=None,
        description="without credentials; sqlite: jdbc:sqlite:/path (unset: catalog.db below `home`); "
        "postgres: jdbc:postgresql://host:port/database, with several hosts "
        "host:port,host:port/database?targetServerType=primary; rest: http(s)://…",
    )
    warehouse: str | None = Field(
        default=None, description="name of the warehouse at a REST catalog, where it has several"
    )
    credentials_env: str | None = Field(
        default=None,
        description="prefix of the variables with the credentials; postgres: <prefix>_USER and <prefix>_PASSWORD; "
        "rest: <prefix>_CREDENTIAL (client_id:client_secret) or <prefix>_TOKEN (an OAuth2 bearer token)",
    )
    oauth2_uri: str | None = Field(
        default=None, description="of the token endpoint that a REST catalog's clients use, if not its own"
    )
    scope: str | None = Field(default=None, description="OAuth2 scope that is requested with a credential")
    lock_seconds: int = Field(
        default=60, ge=1, description="how long to wait while another process holds the SQLite file"
    )
    lake_id: str | None = Field(
        default=None,
        description="id of the lake that the catalog must hold; unset: the one recorded in `home` on first use",
    )

    @model_validator(mode="after")
    def _uri_is_of_its_kind(self) -> Catalog:
        prefixes = {
            "sqlite": ("jdbc:sqlite:",),
            "postgres": ("jdbc:postgresql://",),
            "rest": ("http://", "https://"),
        }[self.kind]
        if self.uri is None and self.kind != "sqlite":
            raise ValueError(
                f'kind = "{self.kind}" needs catalog.uri, which starts with {" or ".join(prefixes)}'
            )
        if self.uri is not None and not self.uri.startswith(prefixes):
            raise ValueError(
                f'the uri of kind = "{self.kind}" starts with {" or ".join(prefixes)}'
                + (" (or set catalog.kind)" if self.kind == "sqlite" else "")
            )
        if self.uri is not None and _has_secret(self.uri):
            raise ValueError(
                "the uri contains a user or password: put them where catalog.credentials_env names"
            )
        if self.uri is not None and self.kind == "postgres":
            given = dict(parse_qsl(urlsplit(self.uri).query, keep_blank_values=True))
            several = "," in self.uri.removeprefix("jdbc:postgresql://").partition("/")[0]
            if given.get("targetServerType", "any" if several else "primary") != "primary":
                raise ValueError(
                    "the uri needs targetServerType=primary, where it has several hosts or another value: jobs write"
                )
            if unknown := given.keys() - POSTGRES_PARAMETERS.keys():
                raise ValueError(
                    f"the uri has {', '.join(sorted(unknown))}: Spark's and pyiceberg's drivers both need the parameters, "
                    f"and can have {', '.join(sorted(POSTGRES_PARAMETERS))}"
                )
        if self.warehouse and self.kind != "rest":
            raise ValueError("catalog.warehouse is for a REST catalog: the files are at warehouse.uri")
        return self

    def credentials(self) -> tuple[str, str] | None:
        """User and password of the database of a postgres catalog, from the environment; None where it has none.

        Raises:
            SettingsError: a variable is not set.
        """
        if not self.credentials_env or self.kind != "postgres":
            return None
        user, password = secrets("catalog.credentials_env", self.credentials_env, ("USER", "PASSWORD"))
        return user, password

    def rest_credentials(self) -> dict[str, str]:
        """`credential` or `token` of a REST catalog, as Iceberg's properties are called; empty where it has none.

        Raises:
            SettingsError: neither variable is set.
        """
        if not self.credentials_env or self.kind != "rest":
            return {}
        for name in ("credential", "token"):
            if value := os.environ.get(f"{self.credentials_env}_{name.upper()}"):
                return {name: value}
        (token,) = secrets("catalog.credentials_env", self.credentials_env, ("TOKEN",))
        return {"token": token}


class Warehouse(Section):
    """The files of the lake: a folder, or a bucket of S3 or of a store that speaks its protocol."""

    uri: str | None = Field(
        default=None,
        description="file:/path or s3://bucket/prefix; unset: the folder `warehouse` below `home`",
    )
    shared: bool = Field(
        default=False,
        description="true: the folder is a mount, at the same path on the driver and on all executors",
    )
    endpoint: str | None = Field(default=None, description="http(s)://… of the store; unset: AWS")
    region: str = Field(default="us-east-1", description="of the bucket")
    path_style: bool = Field(
        default=False, description="address the bucket in the path, as most stores other than AWS require"
    )
    credentials_env: str | None = Field(
        default=None,
        description="prefix of the variables <prefix>_ACCESS_KEY_ID, <prefix>_SECRET_ACCESS_KEY and, where one is "
        "used, <prefix>_SESSION_TOKEN; unset: AWS's default chain, such as the role of the machine",
    )

    @field_validator("uri")
    @classmethod
    def _is_supported(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("file:/", "/", "s3://")):
            raise ValueError(
                "not a folder (file:/path) and not s3://bucket/prefix; docs/deployment.md has a paragraph on "
                "other stores"
            )
        if value and not value.startswith("s3://"):
            # As Hadoop writes paths, see `Settings.warehouse_uri`.
            value = f"file:/{value.removeprefix('file:').lstrip('/')}"
        return value.rstrip("/") if value else value

    @property
    def is_s3(self) -> bool:
        return self.uri is not None and self.uri.startswith("s3://")

    def s3_credentials(self) -> dict[str, str]:
        """The credentials, by the names of Iceberg's S3 properties without `s3.`; empty for AWS's default chain.

        Raises:
            SettingsError: a variable is not set.
        """
        if not self.is_s3 or not self.credentials_env:
            return {}
        key, secret = secrets(
            "warehouse.credentials_env", self.credentials_env, ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
        )
        token = os.environ.get(f"{self.credentials_env}_SESSION_TOKEN")
        return {"access-key-id": key, "secret-access-key": secret} | (
            {"session-token": token} if token else {}
        )


class Spark(Section):
    """The Spark application of each job."""

    master: str = Field(default="local[2]", description="local[N], spark://host:port, yarn or k8s://…")
    driver_memory: str = Field(default="2g", description="heap of the driver, spark.driver.memory")
    driver_host: str | None = Field(
        default=None,
        description="address of this machine that the executors connect to; unset: Spark's choice, the machine's name",
    )
    python: str | None = Field(
        default=None, description="path of Python on the executors; unset: the path of this Python"
    )
    cores_max: int | None = Field(
        default=None,
        ge=1,
        description="cores that one job takes of a standalone cluster, which needs it: without it the first job would take "
        "all, and a second one would get none",
    )
    executor_seconds: int = Field(
        default=60,
        ge=1,
        description="a job without an executor after so long fails; it does not wait for ever",
    )
    conf: dict[str, str] = Field(default={}, description="further Spark properties")

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def is_on_loopback(self) -> bool:
        """Whether the master, and so the whole cluster, is on this machine's loopback interface."""
        return is_loopback(urlsplit(self.master.removeprefix("k8s://")).hostname or "")

    @model_validator(mode="after")
    def _driver_can_be_reached(self) -> Spark:
        if (
            self.driver_host
            and not self.is_local
            and not self.is_on_loopback
            and is_loopback(self.driver_host)
        ):
            raise ValueError(
                f"executors of {self.master} cannot connect to the driver at the loopback address {self.driver_host}: "
                "set spark.driver_host to this machine's address in their network"
            )
        return self


def is_loopback(host: str) -> bool:
    """Whether the host name or address is of the loopback interface; names are not looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def contradiction(catalog: Catalog, warehouse: Warehouse, spark: Spark) -> str | None:
    """Why the three do not work together, in one line; None where they do."""
    if not spark.is_local:
        if not warehouse.is_s3 and not warehouse.shared:
            return (
                f"executors of {spark.master} do not see the folder {warehouse.uri or 'of the warehouse'} of this "
                "machine: set warehouse.uri to s3://…, or warehouse.shared = true if it is mounted at the same path on "
                "all of them"
            )
        if catalog.kind == "sqlite":
            return (
                f"a catalog in SQLite is a file of one machine, but the executors of {spark.master} are on others: set "
                "catalog.kind to postgres or rest"
            )
    if spark.master.startswith("spark://") and spark.cores_max is None:
        return (
            f"set spark.cores_max, the cores of one job: without it {spark.master} gives all cores to the first job, and "
            "another one beside it, such as trace_marts beside trace_ingest, gets none and fails"
        )
    return None
