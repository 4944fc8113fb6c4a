"""`python -m deploy.airflow_command scheduler …`: Airflow's command line, in a process that ends when the command has.

Python waits at its end for the processes that `multiprocessing` has started. Those of LocalExecutor do not end where the
scheduler failed, as it does on a full disk: it would run on and schedule nothing. Who starts this program ends these processes.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from contextlib import suppress


def main() -> int:
    """The exit code of the command."""
    from airflow.__main__ import main as airflow

    try:
        airflow()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        with suppress(OSError):  # of a log on a full disk
            traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    with suppress(OSError):
        logging.shutdown()
        sys.stdout.flush()
    os._exit(code)
