"""The connection type `rocketmq` and its form, which are in `provider.yaml`.

Airflow reads connection types only from installed packages: the entry point that names this function is in the `dist-info`
folder beside it, which Python finds if this folder is on `PYTHONPATH`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, as Airflow's schema `provider_info` defines it."""
    return yaml.safe_load(Path(__file__).with_name("provider.yaml").read_text())
