"""A scrape: each source is read when it may have changed, and what was read is kept as text."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.lake.identity import WrongLakeError
from spark_jobs.lookup.reader import Reader
from spark_jobs.metrics import lake, marts
from spark_jobs.metrics.bounded import bounded
from spark_jobs.metrics.exposition import page, text
from spark_jobs.metrics.metric import Found, Metric, Series
from spark_jobs.metrics.registry import LEFT_OUT, SOURCE_DURATION, SOURCE_READ, SOURCE_UP
from spark_jobs.serving import files
from spark_jobs.serving.contents import ServingFileError
from spark_jobs.settings import Settings
from spark_jobs.settings_error import SettingsError

log = logging.getLogger(__name__)
ReadRuns = Callable[[], Found]
SOURCES = ("marts", "lake", "airflow")


@dataclass
class _Reading:
    """What was read of a source.

    Attributes:
        file: the serving file at that time.
        at: when it was read, seconds since the epoch.
        started: the same by the monotonic clock.
        took: seconds.
        is_up: whether it could be read.
        kept: the series to expose.
        left_out: series that are not exposed, by name of the metric.
    """

    file: Path | None
    at: float
    started: float
    took: float = 0.0
    is_up: bool = False
    kept: dict[Metric, list[Series]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    _texts: dict[bool, bytes] = field(default_factory=dict)

    def text(self, open_metrics: bool) -> bytes:
        """Its metrics; written once in each format."""
        if open_metrics not in self._texts:
            self._texts[open_metrics] = text(self.kept, open_metrics)
        return self._texts[open_metrics]


class Scraper:
    """Answers scrapes; safe in several threads.

    The marts are read once per serving file, as it never changes. The lake, Airflow's database, and a source that could not
    be read are read at most once in `metrics.refresh_seconds`.

    Attributes:
        read_runs: reads the metrics of Airflow's runs.
    """

    def __init__(self, read_runs: ReadRuns):
        self.read_runs = read_runs
        self._lock = threading.Lock()
        self._settings: Settings | None = None
        self._readings: dict[str, _Reading] = {}

    def scrape(self, settings: Settings, open_metrics: bool) -> tuple[bytes, str]:
        """The body of the answer and its content type."""
        with self._lock:
            if settings != self._settings:
                self._settings, self._readings = settings, {}
            file = files.current(settings)
            for source in SOURCES:
                if not self._is_current(source, settings, file):
                    self._readings[source] = self._read(source, settings, file)
            texts = [each.text(open_metrics) for each in self._readings.values() if each.is_up]
            return page([*texts, text(_own(self._readings), open_metrics)], open_metrics)

    def _is_current(self, source: str, settings: Settings, file: Path | None) -> bool:
        known = self._readings.get(source)
        if known is None:
            return False
        if source == "marts" and (known.is_up or known.file != file):
            return known.file == file
        return time.monotonic() - known.started < settings.metrics.refresh_seconds

    def _read(self, source: str, settings: Settings, file: Path | None) -> _Reading:
        reading = _Reading(file, time.time(), time.monotonic())
        try:
            found, traffic = self._found(source, settings)
            for metric, series in found.items():
                kept, left_out = bounded(metric, series, settings.metrics.series, traffic)
                reading.kept[metric], reading.left_out[metric.full_name] = kept, left_out
            reading.is_up = True
        except (ServingFileError, WrongLakeError, SettingsError) as error:
            log.warning("metrics of the source %s could not be read: %s", source, error)
        except Exception:
            # Whatever fails, the other sources and `source_up` are still exposed.
            log.exception("metrics of the source %s could not be read", source)
        reading.took = time.monotonic() - reading.started
        return reading

    def _found(self, source: str, settings: Settings) -> tuple[Found, marts.Traffic]:
        if source == "marts":
            with Reader.open(settings) as reader:
                return marts.read(reader, settings)
        return (lake.read(settings, datetime.now(UTC)) if source == "lake" else self.read_runs()), {}


def _own(readings: dict[str, _Reading]) -> Found:
    left_out = {name: count for each in readings.values() for name, count in each.left_out.items()}
    return {
        SOURCE_UP: [Series((source,), float(each.is_up)) for source, each in readings.items()],
        SOURCE_READ: [Series((source,), each.at) for source, each in readings.items()],
        SOURCE_DURATION: [Series((source,), each.took) for source, each in readings.items()],
        LEFT_OUT: [Series((name,), float(count)) for name, count in left_out.items()],
    }
