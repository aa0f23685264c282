"""BrokerFaults: which brokers are left alone for a while because they were slow or failed
(RocketMQ's latency fault tolerance).

    faults.note("broker-a", 1200.0, isolated=False)    # 1.2 s: not before a minute has passed
    faults.is_usable("broker-a")                       # False

A send's duration chooses the pause; a send that failed without an answer counts as 10 s:

    from    50 ms  100 ms  550 ms  1 s   2 s    3 s    15 s
    pause   0      0       30 s    60 s  120 s  180 s  600 s

With start_detector_enable such brokers are asked meanwhile (every detect_interval), and are usable
again as soon as they answer within detect_timeout.
"""

from __future__ import annotations

import threading

from rmq.base import clock

LATENCY_MAX_MS = (50, 100, 550, 1_000, 2_000, 3_000, 15_000)
NOT_AVAILABLE_MS = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
ISOLATED_MS = 10_000.0


def pause_ms(latency_ms: float) -> int:
    """How long a broker is left alone after a send that took `latency_ms`."""
    for limit, pause in zip(reversed(LATENCY_MAX_MS), reversed(NOT_AVAILABLE_MS), strict=True):
        if latency_ms >= limit:
            return pause
    return 0


class BrokerFaults:
    """Broker name -> when it may be used again. Any thread may use it."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._lock = threading.Lock()

    def note(self, broker_name: str, latency_ms: float, isolated: bool) -> None:
        pause = pause_ms(ISOLATED_MS if isolated else latency_ms)
        with self._lock:
            if pause:
                self._until[broker_name] = clock.monotonic() + pause / 1000
            else:
                self._until.pop(broker_name, None)

    def is_usable(self, broker_name: str) -> bool:
        until = self._until.get(broker_name)
        return until is None or clock.monotonic() >= until

    def avoided(self) -> list[str]:
        """The brokers that are left alone now."""
        with self._lock:
            return [name for name, until in self._until.items() if clock.monotonic() < until]

    def forgive(self, broker_name: str) -> None:
        with self._lock:
            self._until.pop(broker_name, None)
