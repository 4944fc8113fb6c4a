"""One HTTP request with retries, whose errors never contain the address."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime

import httpx
from pydantic import SecretStr
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from spark_jobs.alerts.sinks.secrets import logging_suppressed

TIMEOUT_SECONDS = 10
CLOCK_TIMEOUT_SECONDS = 3
ATTEMPTS = 3


class DeliveryError(Exception):
    """A sink did not accept a notification; the message contains no address."""


class _RetryableError(DeliveryError):
    """A failure that is retried."""

    def __init__(self, why: str):
        super().__init__(f"{why}, {ATTEMPTS} times")


def clock_of(url: SecretStr) -> datetime | None:
    """The server's time, UTC, from the `Date` header of any response; None if there is none."""
    try:
        with logging_suppressed():
            answer = httpx.head(url.get_secret_value(), timeout=CLOCK_TIMEOUT_SECONDS)
        return parsedate_to_datetime(answer.headers["Date"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError):
        return None


@retry(
    retry=retry_if_exception_type(_RetryableError),
    stop=stop_after_attempt(ATTEMPTS),
    wait=wait_exponential(0.5, max=5),
    reraise=True,
)
def request(method: str, url: SecretStr, path: str = "", body: object = None) -> None:
    """Send a request; retry after a pause if the server does not answer or answers with 429 or 5xx.

    Raises:
        DeliveryError: no answer, or no 2xx.
    """
    address = url.get_secret_value()
    if path:
        address = address.rstrip("/") + path
    try:
        with logging_suppressed():
            answer = httpx.request(method, address, json=body, timeout=TIMEOUT_SECONDS)
    except httpx.TransportError as error:
        raise _RetryableError(
            f"no answer ({type(error).__name__})"
        ) from None  # its text may contain the address
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise DeliveryError(f"the address cannot be used ({type(error).__name__})") from None
    if answer.status_code == 429 or answer.status_code >= 500:
        raise _RetryableError(f"answer {answer.status_code}")
    if not answer.is_success:
        raise DeliveryError(f"answer {answer.status_code}")
