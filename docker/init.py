"""Airflow's database, its pools and the password of its user: what `init` of docker-compose.yml makes, once."""

from __future__ import annotations

import os
from pathlib import Path

from sandbox.pipeline import migrate
from sandbox.scheduler import PASSWORDS, USER, password_of

home = Path(os.environ["AIRFLOW_HOME"])
home.mkdir(parents=True, exist_ok=True)
migrate(os.environ)
password_of(home)
print(f"log in as {USER} with the password in {home / PASSWORDS}")
