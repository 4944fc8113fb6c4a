"""Airflow's database, its pools and the password of its user: what `init` of docker-compose.yml makes, once."""

from __future__ import annotations

import os
from pathlib import Path

from sandbox.pipeline import migrate
from sandbox.scheduler import PASSWORDS, USER, password_of
from spark_jobs.alerts import sinks
from spark_jobs.home import keep_private
from spark_jobs.settings import Settings

keep_private(Settings().home)
home = Path(os.environ["AIRFLOW_HOME"])
home.mkdir(parents=True, exist_ok=True)
migrate(os.environ)
password_of(home)
for line in sinks.missing(Settings().alerts):
    print(f"warning: {line}")
print(f"log in as {USER} with the password in {home / PASSWORDS}")
