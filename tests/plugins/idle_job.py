"""A job without Spark: prints its arguments and secret, and ends with the code that it is given, or never."""

from __future__ import annotations

import os
import sys
import time

if __name__ == "__main__":
    print("got", *sys.argv[1:], os.environ.get("IDLE_SECRET"), flush=True)
    if sys.argv[-1] == "hangs":
        time.sleep(3600)
    sys.exit(int(sys.argv[-1]))
