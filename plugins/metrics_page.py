"""`/metrics` for Prometheus. It has a token of its own, which opens nothing else; a session of Airflow does not open it."""

from __future__ import annotations

import hmac
import os

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from plugins.metrics_runs import read_runs
from spark_jobs.metrics.scrape import Scraper
from spark_jobs.settings import Metrics, Settings

SHORTEST_TOKEN = 16
HOW = (
    "Set the setting metrics.token_file to a file that holds a token, or metrics.token_env to the name of an environment "
    f"variable of Airflow's web server that holds one. A token has at least {SHORTEST_TOKEN} characters of ASCII."
)

router = APIRouter()
scraper = Scraper(read_runs)


class TokenError(Exception):
    """No token is set, or it cannot be used; the message says what to do, without the token."""


@router.get("/metrics")
def metrics_page(request: Request) -> Response:
    """All metrics in OpenMetrics, or in Prometheus' text format for who asks for `text/plain` only."""
    settings = Settings()
    try:
        expected = _token(settings.metrics)
    except TokenError as error:
        return PlainTextResponse(f"{error} {HOW}\n", status_code=403)
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # A header may have any bytes, which Starlette decodes as Latin-1.
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), expected):
        why = "The header `Authorization: Bearer <token>` is missing, or its token is not that of this endpoint.\n"
        return PlainTextResponse(why, status_code=401, headers={"WWW-Authenticate": "Bearer"})
    body, content_type = scraper.scrape(settings, _asks_for_open_metrics(request.headers.get("accept", "")))
    return Response(body, headers={"Content-Type": content_type})


def _token(metrics: Metrics) -> bytes:
    """The token of the settings.

    Raises:
        TokenError: there is none, or it is too short.
    """
    if metrics.token_file:
        where = f"file {metrics.token_file} (metrics.token_file)"
        try:
            found = metrics.token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise TokenError(f"The {where} cannot be read: {why}.") from None
    elif metrics.token_env:
        where = f"environment variable {metrics.token_env} (metrics.token_env)"
        found = os.environ.get(metrics.token_env, "").strip()
    else:
        raise TokenError("Metrics are off: no token is set.")
    if len(found) < SHORTEST_TOKEN or not found.isascii():
        raise TokenError(f"The {where} holds no token that can be used.")
    return found.encode()


def _asks_for_open_metrics(accept: str) -> bool:
    return "application/openmetrics-text" in accept or "text/plain" not in accept
