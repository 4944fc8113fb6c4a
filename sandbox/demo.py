"""`make demo`: a real broker, real traffic, the whole pipeline by its DAGs, and the resulting marts."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from pathlib import Path
from typing import IO

from rich.console import Console

from deploy import home_lock, run_once
from deploy.preflight import exit_if_wrong_lake
from sandbox import demo_page, proof
from sandbox.admin import trace_offsets
from sandbox.broker import rocketmq
from sandbox.scenarios import TRACE_TOPICS
from sandbox.traffic import generate
from spark_jobs.process.home import keep_private
from spark_jobs.settings import PROJECT, Cluster, Settings, load_settings

CLUSTER = "demo"

_console = Console(width=150, highlight=False)


def demo(messages: int, settings: Settings, lock: IO[str]) -> None:
    """Generate traffic, process it, and print the marts and the proof."""
    started = time.monotonic()
    _explain(settings)
    # Killed: stopping takes 10 s, and a killed broker loses no acknowledged message.
    with rocketmq(settings.home / "sandbox", stop_in_order=False) as sandbox:
        _console.print(f"a real RocketMQ: nameserver {sandbox.namesrv}, broker {sandbox.broker_address}")
        generate(sandbox.namesrv, messages, settings.home / "sandbox" / "traffic")
        wait_for_grace(settings)
        cluster = Cluster(name=CLUSTER, namesrv=[sandbox.namesrv], trace_topics=list(TRACE_TOPICS))
        settings = settings.model_copy(update={"clusters": [cluster]})
        run_once.run(settings, lock)
        offsets = trace_offsets(sandbox.namesrv, TRACE_TOPICS)
    counts = proof.proof(settings, CLUSTER, offsets)
    proof.summary(settings, counts, time.monotonic() - started)
    _console.print(f"the marts as charts: {demo_page.write(settings)}", soft_wrap=True)
    _console.print(
        f"everything is below {settings.home}; run `make demo` again to add traffic, `make dashboards` to look at it"
    )


def wait_for_grace(settings: Settings) -> None:
    """Wait until the newest message is older than the grace period: no message counts as lost before."""
    time.sleep(settings.limits.grace_seconds + settings.extract.margin_seconds)


def _explain(settings: Settings) -> None:
    limits, path = settings.limits, Path(os.environ["TRACE_SETTINGS"])
    shown = path.relative_to(PROJECT) if path.is_relative_to(PROJECT) else path
    _console.print(
        f"settings of the demo ({shown}): grace {limits.grace_seconds} s, consume timeout "
        f"{limits.consume_timeout_seconds} s, max delay {limits.max_delay_seconds} s, watermark margin "
        f"{settings.extract.margin_seconds} s"
    )


def main(argv: list[str] | None = None) -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("sandbox").setLevel(logging.INFO)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2000, help="about how many messages to send")
    args = parser.parse_args(argv)
    os.environ.setdefault("TRACE_SETTINGS", str(PROJECT / "sandbox" / "demo.toml"))
    settings = load_settings()
    keep_private(settings.home)
    exit_if_wrong_lake(settings)
    try:
        with home_lock.used_by("make demo", settings.home) as lock:
            demo(args.messages, settings, lock)
    except home_lock.HomeInUseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        run_once.stopped()
