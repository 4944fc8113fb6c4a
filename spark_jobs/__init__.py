"""The Spark side of the warehouse: read the trace topic, decode it, merge it, build the marts."""

import os
import signal
import sys

if getattr(sys, "argv", [])[:1] == ["-m"]:
    # `python -m spark_jobs.<job>` imports its modules, which takes seconds. Until `run_job` takes over there is nothing
    # to clean up, so Ctrl-C ends the process at once, without the trace of an import.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
