"""Whether Superset answers, or waits for the first publication of the marts: `dashboards_health.py PORT`, exit code 0 or 1."""

from __future__ import annotations

import sys

from deploy.dashboards.service import answers
from spark_jobs.settings import load_settings

# None while it creates its database.
sys.exit(0 if answers(load_settings(), int(sys.argv[1])) else 1)
