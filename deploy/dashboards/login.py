"""Log in to Superset in a browser; for screenshots, benchmarks and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # not among the packages of a deployment
    from playwright.sync_api import Page


def log_in(page: Page, user: str, password: str) -> None:
    """Fill in the form of the login page; return when the Overview follows.

    Args:
        page: of a browser whose `base_url` is that of Superset.
        user: name of the user.
        password: of the user.
    """
    submit(page, user, password)
    # A busy machine takes long to load the dashboard; the address is enough.
    page.wait_for_url("**/superset/dashboard/trace-overview/", wait_until="commit", timeout=120_000)


def submit(page: Page, user: str, password: str) -> None:
    """Fill in the form of the login page, and send it."""
    page.goto("/login/")
    page.locator("#username").fill(user)
    page.locator("#password").fill(password)
    page.locator("#password").press("Enter")
