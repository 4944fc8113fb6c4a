"""Superset's configuration. It runs in Superset's own environment, so it imports nothing of the project.

The environment: TRACE_DASHBOARDS_HOME (folder of all state), TRACE_DASHBOARDS_SECRET_KEY, TRACE_DASHBOARDS_DATA (the link to
the serving file of the newest publication).
"""

import copy
import os
import sqlite3
from pathlib import Path
from typing import Any

import shortcuts
from flask_caching.backends.filesystemcache import FileSystemCache
from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Engine
from sqlalchemy.pool import NullPool
from superset.utils.log import AbstractEventLogger

HOME = Path(os.environ["TRACE_DASHBOARDS_HOME"])
DATA = Path(os.environ["TRACE_DASHBOARDS_DATA"])

SECRET_KEY = os.environ["TRACE_DASHBOARDS_SECRET_KEY"]
SQLALCHEMY_DATABASE_URI = f"sqlite:///{HOME / 'superset.db'}?check_same_thread=false"
SQLLAB_CTAS_NO_LIMIT = False
SQL_MAX_ROW = 100_000
ROW_LIMIT = 50_000
DEFAULT_TIME_FILTER = "Last week"
# Ranges such as "Last week" include today.
DEFAULT_RELATIVE_END_TIME = "now"
PREVENT_UNSAFE_DB_CONNECTIONS = True
FAB_ADD_SECURITY_API = True
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
WTF_CSRF_ENABLED = True
ENABLE_PROXY_FIX = False
# No telemetry, and nothing from other hosts.
SCARF_ANALYTICS = False
MAPBOX_API_KEY = ""
APP_NAME = "RocketMQ traces"
FAB_INDEX_VIEW = "start_page.StartPage"
# With 5 intervals, an axis from 0 ends at 100 % for rates up to 100 %; ECharts' default of fewer intervals may end at 120 %.
_AXES = {"yAxis": {"splitNumber": 5}}
# A chart with one hour has an axis of two days, which its only bar would fill.
_BARS = {"series": {"barMaxWidth": 24}}
# Charts are drawn once, without animation.
THEME_DEFAULT = {
    "algorithm": "default",
    "token": {
        "brandAppName": APP_NAME,
        "brandLogoAlt": "Apache Superset",
        "brandLogoHeight": "24px",
        "brandLogoHref": "/",
        "brandLogoMargin": "18px 0",
        "brandLogoUrl": "/static/assets/images/superset-logo-horiz.png",
        "echartsOptionsOverrides": {"animation": False},
        "echartsOptionsOverridesByChartType": {
            "echarts_timeseries_line": _AXES,
            "echarts_timeseries_bar": _AXES | _BARS,
        },
    },
}
THEME_DARK = {**THEME_DEFAULT, "algorithm": "dark"}
FEATURE_FLAGS = {
    "ALERT_REPORTS": False,
    "DASHBOARD_RBAC": False,
    "ENABLE_TEMPLATE_PROCESSING": False,
    "TAGGING_SYSTEM": False,
}
TALISMAN_ENABLED = True
_CSP = {
    "base-uri": ["'self'"],
    "default-src": ["'self'"],
    "img-src": ["'self'", "blob:", "data:"],
    "worker-src": ["'self'", "blob:"],
    "connect-src": ["'self'"],
    "object-src": "'none'",
    "style-src": ["'self'", "'unsafe-inline'"],
    # SQL Lab's editor evaluates code.
    "script-src": ["'self'", "'strict-dynamic'", "'unsafe-eval'"],
}
TALISMAN_CONFIG = {
    "content_security_policy": _CSP,
    "content_security_policy_nonce_in": ["script-src"],
    "force_https": False,
    "session_cookie_secure": False,
}


@event.listens_for(Engine, "connect")
def _readers_do_not_wait(connection, _):  # noqa: ANN001, ANN202 - as SQLAlchemy declares it
    """With the write-ahead log, requests that write to Superset's database do not stop those that read."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")


class NoEventLogger(AbstractEventLogger):
    """Keep no log of requests: by default each request adds a row to Superset's database, and waits for the disk."""

    def log(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as Superset declares it
        """Called by Superset for each request."""


EVENT_LOGGER = NoEventLogger()


def _publication() -> str:
    """The folder of the newest publication; a new one for each."""
    return DATA.resolve().parent.name


class PublicationCache(FileSystemCache):
    """A cache whose entries belong to one publication, so that a new one shows new numbers without a restart."""

    @classmethod
    def factory(cls, app, config, args, kwargs):  # noqa: ANN001, ANN206 - as flask-caching declares it
        """Called by flask-caching."""
        args.insert(0, config["CACHE_DIR"])
        kwargs.update({"threshold": config["CACHE_THRESHOLD"]})
        return cls(*args, **kwargs)

    def _get_filename(self, key: str) -> str:
        return super()._get_filename(f"{_publication()} {key}")


def _cache(name: str, seconds: int) -> dict:
    return {
        "CACHE_TYPE": "superset_config.PublicationCache",
        "CACHE_DIR": str(HOME / "cache" / name),
        "CACHE_DEFAULT_TIMEOUT": seconds,
        "CACHE_THRESHOLD": 2000,
        "CACHE_KEY_PREFIX": name,
    }


CACHE_CONFIG = _cache("metadata", 3600)
DATA_CACHE_CONFIG = _cache("data", 24 * 3600)
FILTER_STATE_CACHE_CONFIG = {
    "CACHE_TYPE": "FileSystemCache",
    "CACHE_DIR": str(HOME / "cache" / "filters"),
    "CACHE_DEFAULT_TIMEOUT": 90 * 24 * 3600,
    "CACHE_THRESHOLD": 10_000,
}
EXPLORE_FORM_DATA_CACHE_CONFIG = {
    "CACHE_TYPE": "FileSystemCache",
    "CACHE_DIR": str(HOME / "cache" / "explore"),
    "CACHE_DEFAULT_TIMEOUT": 7 * 24 * 3600,
    "CACHE_THRESHOLD": 10_000,
}


def DB_CONNECTION_MUTATOR(uri, params, username, security_manager, source):  # noqa: ANN001, ANN201, N802 - Superset's name
    """Open the file of the newest publication, with a new connection for each query.

    DuckDB shares one instance per path in a process, so the link is resolved.
    """
    if uri.drivername != "duckdb":
        return uri, params
    params["poolclass"] = NullPool
    url = URL.create("duckdb", database=str(DATA.resolve()))
    _keep_open(url, params)
    return url, params


# The newest file and a connection to it that no query uses.
_open: dict[URL, object] = {}


def _keep_open(url, params):  # noqa: ANN001, ANN202
    """Keep DuckDB's instance between queries; without an open connection each query would open the file and read its metadata."""
    if url not in _open and Path(url.database).exists():
        connection = create_engine(url, **copy.deepcopy(params)).raw_connection()
        _open.clear()
        _open[url] = connection


def FLASK_APP_MUTATOR(app):  # noqa: ANN001, ANN201, N802 - Superset's name
    """Called by Superset when it starts."""
    shortcuts.install()
