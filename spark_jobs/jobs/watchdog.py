"""Job: watch the other jobs without starting Spark: freshness, lag, retention headroom; resend open alerts; send a heartbeat.

It notifies when the ingest or the marts are silent, whatever ended them, and when its own checks fail.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from functools import partial

from spark_jobs.alerts import file_store, heartbeat, resend, run_checks
from spark_jobs.alerts.notify import NotifyResult, StateNotSavedError, notify, remind, utc_now
from spark_jobs.alerts.timeout import time_limit
from spark_jobs.checks.check import Measured, Run, Stage, judge
from spark_jobs.checks.registry import BY_NAME, of_stage
from spark_jobs.jobs.run import describe, job_parser, run_job
from spark_jobs.lake.catalog import lake
from spark_jobs.lake.tables import CHECK_RESULTS
from spark_jobs.settings import Settings

# The brokers last: the other checks notify even if no broker answers.
STAGES: tuple[Stage, ...] = ("watchdog", "brokers")
# Per stage, and for the notification about the watchdog itself; together shorter than the timeout of its task.
SECONDS = 70


def watch(settings: Settings, now: datetime, run_id: str) -> list[str]:
    """Run the checks, save their results, deliver notifications, send the heartbeat; return what went wrong.

    The heartbeat is sent only if all of that succeeded: an external monitor alerts when it is missing. What went wrong is the
    alert `watchdog`; a heartbeat that is not accepted is part of it from the second one in a row on.
    """
    if _is_new(settings, now):
        print("there is no lake yet: start trace_ingest", file=sys.stderr)
        resend.save_last_run(settings, utc_now())
        return []
    run, wrong = Run(settings, now), list[str]()
    for stage in STAGES:
        try:
            with time_limit(SECONDS):
                _, result = run_checks.evaluate_and_notify(of_stage(settings, stage), run, run_id)
            wrong += _undelivered(result)
        except StateNotSavedError as error:
            wrong.append(_text(error))
        except Exception as error:  # of any kind: it must be notified
            wrong.append(_text(error))
            # Otherwise Alertmanager would resolve them.
            standing = resend.read(settings).alerts
            wrong += _undelivered(remind(standing, settings))
            resend.save(settings, standing, utc_now())
            break
    missed = None if wrong else heartbeat.send(settings)
    if missed:
        wrong.append(f"heartbeat: {missed.why}")
    alerted = [] if missed and not missed.again else wrong
    # A fault of the lake cannot be stored in the lake.
    of_itself = judge(
        BY_NAME["watchdog"], [Measured(None, len(alerted), "; ".join(alerted) or "no error")], settings
    )
    file = resend.watchdog_alerts_file(settings)
    try:
        with time_limit(SECONDS):
            wrong += _undelivered(notify(partial(file_store.change, file), [of_itself], settings, now))
    except Exception as error:
        wrong.append(_text(error))
    resend.save_last_run(settings, utc_now())
    return wrong


def _is_new(settings: Settings, now: datetime) -> bool:
    """Whether there are no tables yet, and only for a short time: the first ingest creates them."""
    try:
        with time_limit(SECONDS / 4):
            if lake(settings).table_exists(CHECK_RESULTS.name):
                return False
        first = settings.home / "watchdog" / "first_look"
        if not first.exists():
            first.parent.mkdir(parents=True, exist_ok=True)
            first.write_text(now.isoformat())
        since = datetime.fromisoformat(first.read_text())
    except Exception:  # the checks fail in the same way and notify
        return False
    return now - since <= timedelta(minutes=settings.checks.ingest_silent_minutes)


def _text(error: Exception) -> str:
    return describe(error) or f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:500]}"


def _undelivered(result: NotifyResult) -> list[str]:
    return [f"sink {name} could not be notified: {why}" for name, why in result.undelivered.items()]


def main(argv: list[str] | None = None) -> int:
    args = job_parser(__doc__).parse_args(argv)
    wrong = watch(Settings(), datetime.now(UTC), args.run_id)
    for each in wrong:
        print(f"failed: {each}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(run_job(main))
