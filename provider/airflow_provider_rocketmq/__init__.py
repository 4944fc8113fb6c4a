"""Apache RocketMQ for Airflow: connection type, hook, sensor, trigger and message queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, as Airflow's schema `provider_info` defines it."""
    return yaml.safe_load(Path(__file__).with_name("provider.yaml").read_text())
