"""Log in to Superset in a browser; for screenshots, benchmarks and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:  # not among the packages of a deployment
    from playwright.sync_api import Page


ATTEMPTS = 3


def log_in(page: Page, user: str, password: str) -> None:
    """Log in on the login page; return when the Overview follows.

    On a busy machine, the browser has been seen to stay on the login page after it had sent the form: the form is sent again.

    Args:
        page: of a browser whose `base_url` is that of Superset.
        user: name of the user.
        password: of the user.

    Raises:
        TimeoutError: of playwright; the Overview did not follow in any of the attempts.
    """
    from playwright.sync_api import TimeoutError

    for attempt in range(ATTEMPTS):
        submit(page, user, password)
        try:
            # A busy machine takes long to load the dashboard; the address is enough.
            page.wait_for_url(_is_overview, wait_until="commit", timeout=60_000)
            return
        except TimeoutError:
            page.goto("/", wait_until="commit")
            if _is_overview(page.url):
                return
            if attempt == ATTEMPTS - 1:
                raise


def _is_overview(url: str) -> bool:
    return urlsplit(url).path == "/superset/dashboard/trace-overview/"


def submit(page: Page, user: str, password: str) -> None:
    """Fill in the form of the login page, and send it.

    Superset renders the form in the browser. On a busy machine it may render it once more when it is filled in
    already, and sends nothing then: the form is filled in again.

    Raises:
        TimeoutError: of playwright; the form was not sent in any of the attempts.
    """
    from playwright.sync_api import TimeoutError

    # A late response to a request of the page would set the cookie of a session without user again.
    page.goto("/login/", wait_until="networkidle")
    for attempt in range(ATTEMPTS):
        page.locator("#username").fill(user)
        page.locator("#password").fill(password)
        try:
            with page.expect_request(
                lambda sent: sent.method == "POST" and "/login/" in sent.url, timeout=30_000
            ):
                page.locator("#password").press("Enter")
            return
        except TimeoutError:
            if attempt == ATTEMPTS - 1:
                raise
