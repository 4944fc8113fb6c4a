"""DuckDB's access to a warehouse on S3: its extensions, from their Python packages, and a secret with the credentials."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import duckdb

from spark_jobs.settings import Settings
from spark_jobs.settings_deployment import Warehouse

_SECRET = "trace_warehouse"


def open_warehouse(connection: duckdb.DuckDBPyConnection, settings: Settings) -> None:
    """Let the connection read the files of the warehouse; nothing is to be done where they are in a folder.

    The secret is in the connection's memory only, never in the serving file.

    Raises:
        SettingsError: credentials are not in the environment.
    """
    if settings.warehouse.is_s3:
        values = {name: _text(value) for name, value in settings.warehouse.s3_credentials().items()}
        for statement in statements(settings.warehouse, values):
            connection.execute(statement)


def shell_statements(settings: Settings) -> list[str]:
    """The same statements for DuckDB's shell: they name the variables of the credentials and have no value of them."""
    if not settings.warehouse.is_s3:
        return []
    prefix = settings.warehouse.credentials_env
    names = settings.warehouse.s3_credentials()
    variables = {name: f"getenv('{prefix}_{name.replace('-', '_').upper()}')" for name in names}
    return statements(settings.warehouse, variables)


def statements(warehouse: Warehouse, credentials: Mapping[str, str]) -> list[str]:
    """The statements that load the extensions and create the secret.

    Args:
        warehouse: on S3.
        credentials: SQL expressions by the names of `Warehouse.s3_credentials`; empty for AWS's default chain.
    """
    options = {"type": "s3", "region": _text(warehouse.region), "scope": _text(f"{warehouse.uri}/")}
    extensions = ["httpfs"]
    if credentials:
        names = {"access-key-id": "key_id", "secret-access-key": "secret", "session-token": "session_token"}
        options |= {names[name]: value for name, value in credentials.items()}
    else:
        extensions.append("aws")
        options["provider"] = "credential_chain"
    if warehouse.endpoint:
        endpoint = urlsplit(warehouse.endpoint)
        options |= {
            "endpoint": _text(endpoint.netloc + endpoint.path.rstrip("/")),
            "use_ssl": str(endpoint.scheme == "https").lower(),
        }
    if warehouse.path_style:
        options["url_style"] = "'path'"
    listed = ", ".join(f"{name} {value}" for name, value in options.items())
    return [
        *(f"load {_text(str(_extension(name)))}" for name in extensions),
        f"create or replace temporary secret {_SECRET} ({listed})",
    ]


def _extension(name: str) -> Path:
    package = find_spec(f"duckdb_extension_{name}")
    if package is None or not package.submodule_search_locations:
        raise ImportError(f"the package duckdb-extension-{name} is not installed: run `make setup`")
    (file,) = Path(package.submodule_search_locations[0]).rglob(f"{name}.duckdb_extension")
    return file


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
