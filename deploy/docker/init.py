"""Airflow's database, its pools and the password of its user: what `init` of docker-compose.yml makes, once."""

from __future__ import annotations

import os
from pathlib import Path

from deploy.airflow_components import PASSWORDS, USER, password_of
from deploy.airflow_environment import migrate
from spark_jobs.alerts.sinks import sink
from spark_jobs.process.home import keep_private
from spark_jobs.settings import load_settings

keep_private(load_settings().home)
home = Path(os.environ["AIRFLOW_HOME"])
home.mkdir(parents=True, exist_ok=True)
migrate(os.environ)
password_of(home)
for line in sink.missing(load_settings().alerts):
    print(f"warning: {line}")
print(f"log in as {USER} with the password in {home / PASSWORDS}")
