"""Write docs/images/<dashboard>.png: the dashboards on what is published below TRACE_HOME; `make dashboards-screenshots`."""

from __future__ import annotations

import shutil
import sys

from playwright.sync_api import Page, sync_playwright

from deploy.dashboards import assets, service
from deploy.dashboards.login import log_in
from deploy.dashboards.service import ADMIN, DashboardsError, Superset
from spark_jobs.settings import PROJECT, load_settings

IMAGES = PROJECT / "docs" / "images"
WIDTH = 1440
# More than the height of the notes, which is not in the files.
NOTES = 1600
MARGIN = 24
# For the animations of the charts.
PAINTED_MS = 4000


def main() -> int:
    browser = shutil.which("chromium")
    superset = Superset(load_settings())
    try:
        if browser is None:
            raise DashboardsError("chromium is not installed (Debian: apt-get install chromium)")
        superset.prepare()
        port = service.free_port()
        with service.running(superset, port), sync_playwright() as playwright:
            chromium = playwright.chromium.launch(
                executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
            )
            page = chromium.new_page(base_url=service.url_of(port), viewport={"width": WIDTH, "height": 1000})
            log_in(page, ADMIN, superset.password_file.read_text())
            IMAGES.mkdir(exist_ok=True)
            for name, dashboard in assets.read().dashboards.items():
                _take(page, name, dashboard)
            chromium.close()
    except DashboardsError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    return 0


def _take(page: Page, name: str, dashboard: assets.Dashboard) -> None:
    # A row has 8 pixels per unit, and a gap; all of the dashboard is in view, so that all charts are drawn.
    height = sum(max(cell.height for cell in row) * 8 + 16 for row in dashboard.rows) + 220 + NOTES
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.goto(f"/superset/dashboard/{dashboard.slug}/")
    page.locator(".dashboard-component-chart-holder").first.wait_for(timeout=60_000)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(PAINTED_MS)
    file = IMAGES / f"{name}.png"
    end = page.locator(".dashboard-markdown").last.evaluate("note => note.getBoundingClientRect().bottom")
    page.screenshot(path=file, clip={"x": 0, "y": 0, "width": WIDTH, "height": end + MARGIN})
    print(f"wrote {file.relative_to(PROJECT)}")


if __name__ == "__main__":
    sys.exit(main())
