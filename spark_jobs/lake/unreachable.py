"""Describe in one line a catalog or a warehouse that is away, or that refuses the credentials, and executors that are gone."""

from __future__ import annotations

import re

from spark_jobs.lake.deployment import NO_EXECUTOR, catalog_address, no_executor
from spark_jobs.settings import Settings

# Parts of the error messages of SQLAlchemy and JDBC, of pyiceberg's and Iceberg's REST clients, and of pyarrow and the AWS
# SDK. The first group refused the credentials, the second one did not answer.
_CATALOG = {
    "postgres": (
        ("password authentication failed", "no password supplied", "permission denied for"),
        ("psycopg2.OperationalError", "org.postgresql.util.PSQLException"),
    ),
    "rest": (
        ("UnauthorizedError", "NotAuthorizedException", "ForbiddenError", "ForbiddenException", "OAuthError")
        + ("AuthorizationExpiredError",),
        ("HTTPConnectionPool", "HTTPSConnectionPool", "ServiceUnavailableError", "ServiceFailureException")
        + ("ServerError", "RESTException", "HttpHostConnectException"),
    ),
    "sqlite": ((), ()),
}
_WAREHOUSE = (
    (
        "ACCESS_DENIED",
        "INVALID_ACCESS_KEY_ID",
        "SIGNATURE_DOES_NOT_MATCH",
        "INVALID_SIGNATURE",
        "ExpiredToken",
    )
    + ("EXPIRED_TOKEN", "Status Code: 403", "HTTP response code 403", "provided token has expired")
    + ("provided token is invalid", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
    ("AWS Error NETWORK_CONNECTION", "SdkClientException", "NO_SUCH_BUCKET", "NoSuchBucket", "AWS Error"),
)
_NOTHING_LOST = "Nothing that was published is lost: run the job again"


def describe(text: str, settings: Settings) -> str | None:
    """What is away or refuses, where, why and what to do; None if the error is about none of them.

    Args:
        text: the messages of the error and of its causes, one per line.
        settings: the catalog and the warehouse.
    """
    if NO_EXECUTOR in text:  # the reason that `executors.watch` gives
        return f"{no_executor(settings)}. {_NOTHING_LOST}"
    catalog, warehouse = settings.catalog, settings.warehouse
    names = catalog.credentials_env or "catalog.credentials_env, which is not set"
    places = [(f"the {catalog.kind} catalog {catalog_address(settings)}", names, *_CATALOG[catalog.kind])]
    if warehouse.is_s3:
        where = f"the warehouse {warehouse.uri} ({warehouse.endpoint or 'AWS'}, region {warehouse.region})"
        places.append((where, warehouse.credentials_env or "AWS's default chain", *_WAREHOUSE))
    for where, names, refused, away in places:
        if line := _line(text, refused):
            return f"{where} refuses the credentials (variables of {names}): {line}. {_NOTHING_LOST}"
        if line := _line(text, away):
            return f"{where} is not available: {line}. {_NOTHING_LOST}"
    return None


def _line(text: str, signs: tuple[str, ...]) -> str | None:
    """The first line with one of the signs, without the types of the exceptions before it."""
    for line in text.splitlines():
        if any(sign in line for sign in signs):
            found = min(line.find(sign) for sign in signs if sign in line)
            start = max(0, found - 120)
            short = " ".join(line[start : found + 300].split())
            return re.sub(r"^\S*\s", "", short) if start else short
    return None
