"""Log in to Superset in a browser; for screenshots, benchmarks and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # not among the packages of a deployment
    from playwright.sync_api import Page


TIMEOUT_MS = 90_000  # a busy machine takes a minute for the first page after the login


def log_in(page: Page, user: str, password: str) -> None:
    """Fill in the form of the login page; return when Superset shows its start page.

    Args:
        page: of a browser whose `base_url` is that of Superset.
        user: name of the user.
        password: of the user.
    """
    page.goto("/login/")
    page.locator("#username").fill(user)
    page.locator("#password").fill(password)
    page.locator("#password").press("Enter")
    page.wait_for_url("**/superset/welcome/", wait_until="commit", timeout=TIMEOUT_MS)
