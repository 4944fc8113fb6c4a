"""docs/settings.md: up to date, complete, and its example can be loaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from docs.settings import HEAD, PAGE, models_in, render
from spark_jobs.settings import Settings


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == render(), "run `make settings`"


def undescribed(model: type[BaseModel], path: str = "") -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        inner = models_in(field.annotation)
        found += [f"{path}{name}"] if not field.description and not inner else []
        found += [key for each in inner for key in undescribed(each, f"{path}{name}.")]
    return found


def test_every_setting_says_what_it_means():
    assert undescribed(Settings) == []


def test_the_example_can_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "settings.toml"
    text = re.search(r"```toml\n(.*?)```", HEAD, re.DOTALL)
    assert text is not None
    file.write_text(text[1])
    monkeypatch.setenv("TRACE_SETTINGS", str(file))
    of_file = Settings()
    assert (of_file.environment, of_file.clusters[0].name, of_file.limits.grace_seconds) == (
        "production",
        "prod",
        600,
    )
    exported: dict[str, Any] = dict(re.findall(r"^export (TRACE_\w+)='?(.*?)'?$", HEAD, re.MULTILINE))
    assert exported.pop("TRACE_SETTINGS") == "settings.toml"
    monkeypatch.delenv("TRACE_SETTINGS")
    for name, value in exported.items():
        monkeypatch.setenv(name, value)
    assert Settings().limits == of_file.limits
    assert Settings().clusters[0].namesrv == ["10.0.0.5:9876"]
