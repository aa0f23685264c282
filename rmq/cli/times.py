"""Times as options: moments, durations, and where to begin (rmq/operations/times.py)."""

from __future__ import annotations

from rmq.cli.options import Parsed
from rmq.operations.times import duration_ms, moment_ms, parse_start

MOMENT = Parsed("TIME", moment_ms)
DURATION = Parsed("DURATION", duration_ms)
START = Parsed("START", parse_start)
