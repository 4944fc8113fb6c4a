"""Whether tests run in full, as in `make soak`, or a sample of them, as in `make test`."""

from __future__ import annotations

import os

IS_SOAK = "TRACE_SOAK_REPEATS" in os.environ
