"""Times as options: moments and durations (rmq/operations/times.py)."""

from __future__ import annotations

from rmq.cli.options import Parsed
from rmq.operations.times import duration_ms, moment_ms

MOMENT = Parsed("TIME", moment_ms)
DURATION = Parsed("DURATION", duration_ms)
