"""What takes minutes runs in `make soak` alone."""

from __future__ import annotations

import os

collect_ignore = [] if "TRACE_SOAK_STEPS" in os.environ else ["test_erased_everywhere.py"]
