"""Chromium on the pages of a real Airflow, and what a person reads there."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, sync_playwright

from deploy import child_process
from deploy.airflow_components import USER, components, password_of
from tests.e2e.airflow_api import AirflowApi

BINARY = "chromium"
needs_chromium = pytest.mark.skipif(
    shutil.which(BINARY) is None, reason=f"{BINARY} is not installed (Debian: apt-get install {BINARY})"
)
_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
PHONE, DESKTOP = (360, 740), (1200, 800)
START_SECONDS = 120


@contextmanager
def api_server(environment: dict[str, str], log: Path) -> Iterator[tuple[str, str]]:
    """Airflow's web server alone, over the state of `make run`; its address and the password of `USER`."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    url, complete, (server, *_) = components(environment, port)
    with log.open("wb") as out:
        process = child_process.spawn(server.command, env=complete, stdout=out, stderr=out)
        try:
            until = time.monotonic() + START_SECONDS
            while AirflowApi(url).monitor() is None:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.5)
            yield url, password_of(Path(environment["AIRFLOW_HOME"]))
        finally:
            child_process.end(process, 20)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=shutil.which(BINARY), args=_ARGUMENTS)
        yield found
        found.close()


def log_in(page: Page, password: str) -> None:
    """Fill in the form of the page that Airflow shows to who is signed out."""
    page.get_by_label("Username").fill(USER)
    page.locator("input[name=password]").fill(password)
    page.locator("input[name=password]").press("Enter")


def watched(context: BrowserContext) -> tuple[Page, list[str]]:
    """A page, and what must stay empty: dialogs, errors of scripts, and what its policy blocked."""
    page = context.new_page()
    seen: list[str] = []

    def refuse(dialog: Dialog) -> None:
        seen.append(dialog.message)
        dialog.dismiss()

    def blocked(line: ConsoleMessage) -> None:
        if "Content Security Policy" in line.text:
            seen.append(line.text)

    page.on("dialog", refuse)
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("console", blocked)
    return page, seen


def is_too_wide(page: Page) -> bool:
    """Whether the page must be scrolled sideways."""
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")
