"""Clients that send and consume until they are stopped: `clients` of docker-compose.yml, against a RocketMQ that already runs.

Each round is one of `sandbox.traffic`. A round that fails is logged, and the next one starts all the same.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import sys
import time
from pathlib import Path

from sandbox.traffic import TrafficError, generate
from spark_jobs.process.home import keep_private
from spark_jobs.settings import load_settings

LAST_ROUND = "last-round"
KEPT_RUNS = 3
log = logging.getLogger(__name__)


def one_round(namesrv: str, messages: int, folder: Path) -> bool:
    """Send and consume once; return whether all went as planned. The records of the last `KEPT_RUNS` rounds are kept.

    Args:
        namesrv: the nameserver's "host:port".
        messages: number of plain messages.
        folder: gets the records of the rounds, and the file `LAST_ROUND`, whose time says when a round was last complete.
    """
    try:
        generate(namesrv, messages, folder)
    except (TrafficError, RuntimeError) as error:
        log.error("the round failed, the next one starts all the same: %s", error)
        return False
    (folder / LAST_ROUND).touch()
    for old in sorted(folder.glob("run-*"), key=lambda run: run.stat().st_mtime)[:-KEPT_RUNS]:
        shutil.rmtree(old)
    return True


def main(argv: list[str] | None = None) -> None:
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namesrv", required=True, help="nameserver, host:port")
    parser.add_argument("--messages", type=int, default=200, help="plain messages of each round")
    parser.add_argument("--every-seconds", type=float, default=60, help="pause between two rounds")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    home = load_settings().home
    keep_private(home)
    folder = home / "clients"
    folder.mkdir(exist_ok=True)
    while True:
        one_round(args.namesrv, args.messages, folder)
        time.sleep(args.every_seconds)


if __name__ == "__main__":
    main()
