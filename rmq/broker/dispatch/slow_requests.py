"""Slow requests: logs requests that took longer than rmqSlowRequestMs, with where the time went.

    slow.answered(request)       control is done with the request, whether it was answered or not
    slow.look(core)              called at intervals: looks at what the reactor answered meanwhile

    slow: request 17 (UPDATE_AND_CREATE_TOPIC) from 10.0.0.1:4711 took 1203 ms: 900 until its turn,
    3 at work, 300 waiting for others: Create Topic:orders

The times of a request of control are: until its turn, from when the loop took it from the core, as
other requests were before it, the event loop stood still, or its client did not read earlier
answers; at work, while the handler had the loop for itself and everything else waited; waiting for
others: for a thread, a disk, another server or a client. There is at most one line per code in ten
seconds, which says how many more there were; all unknown codes count as one. A request that asks to
be held while there is nothing to tell (Request.held_s) does not count as slow because it was held.

The reactor does not note single requests, only the counts of rpc_times (RPC_STEPS_MS): how many
answers of a kind took longer than the setting, or than the next bound above it if the setting is
not a bound. Times beyond the last bound cannot be told apart. The line also says how long the log
took in the same period.

    slow: 12 answers to request 310 (SEND_MESSAGE_V2) took more than 1000 ms, within 10 s: SUCCESS;
    the log meanwhile: 99 % were written within 2 ms, synced within 1480 ms
"""

import logging
from bisect import bisect_left

from rmq.auth import audit
from rmq.auth.permissions import wanted
from rmq.base import clock
from rmq.base.rate_limited_log import RateLimitedLog
from rmq.broker.core_seam import StatCalls
from rmq.broker.dispatch.request import Request
from rmq.codes import REQUEST_CODES, ResponseCode
from rmq.config import Settings
from rmq.errors import ProtocolError
from rmq.observe.latency import percentile, since
from rmq.observe.sample import RPC_STEPS_MS

log = logging.getLogger("rmq.broker.slow_requests")

Answers = dict[tuple[int, int], list[int]]  # (request code, response code) -> counts by bounds
_RESPONSES = {code.value: code.name for code in ResponseCode}


class SlowRequests:
    """Owned by the control thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._quiet = RateLimitedLog(log)
        # The counts at the last look; None: there was no look while the setting was on.
        self._answers: Answers | None = {} if settings.rmqSlowRequestMs else None
        self._latencies: dict[str, list[int]] = {}
        self._looked_at = clock.monotonic()

    def answered(self, request: Request) -> None:
        limit_ms = self._settings.rmqSlowRequestMs
        now = clock.monotonic()
        if not limit_ms or (now - request.arrived - request.held_s) * 1000 <= limit_ms:
            return
        code = request.command.code
        key = str(code) if code in REQUEST_CODES else "unknown"
        if self._quiet.holds_back(key):  # before the cost of finding its topics and groups
            return
        worked = request.parted or now
        turn_ms, work_ms, wait_ms = (
            round(seconds * 1000)
            for seconds in (request.began - request.arrived, worked - request.began, now - worked)
        )
        took_ms = round((now - request.arrived) * 1000)
        peer, about = request.connection.address, self._about(request)
        self._quiet.log(
            logging.WARNING,
            key,
            "slow: %s from %s took %d ms: %d until its turn, %d at work, %d waiting for others%s",
            audit.request(code), peer, took_ms, turn_ms, work_ms, wait_ms,
            f": {about}" if about else "",
            extra={
                "code": code, "peer": peer, "took_ms": took_ms, "turn_ms": turn_ms,
                "work_ms": work_ms, "wait_ms": wait_ms, "resources": about,
            },
        )  # fmt: skip

    def _about(self, request: Request) -> str:
        """The request's topics and groups, for the log line."""
        try:
            needs = wanted(request.command, self._settings.brokerClusterName)
        except ProtocolError:
            return ""
        return audit.plain(audit.resources(needs))

    def look(self, core: StatCalls) -> None:
        limit_ms = self._settings.rmqSlowRequestMs
        if not limit_ms:
            self._answers = None
            return
        answers: Answers = {
            (code, response): counts
            for (code, response, held), (counts, _) in core.rpc_times().items()
            if not held  # held requests have waited for a message
        }
        latencies = {name: counts for name, (counts, _) in core.latencies().items()}
        now = clock.monotonic()
        if self._answers is not None:
            self._tell(answers, latencies, limit_ms, now - self._looked_at)
        self._answers, self._latencies, self._looked_at = answers, latencies, now

    def _tell(
        self, answers: Answers, latencies: dict[str, list[int]], limit_ms: int, seconds: float
    ) -> None:
        step = bisect_left(RPC_STEPS_MS, limit_ms)
        if self._answers is None or step == len(RPC_STEPS_MS):
            return
        found: dict[int, dict[int, int]] = {}
        for (code, response), counts in answers.items():
            grown = since(counts, self._answers.get((code, response), [0] * len(counts)))
            if slow := sum(grown[step + 1 :]):
                found.setdefault(code, {})[response] = slow
        meanwhile = self._log_times(latencies) if found else ""
        for code, responses in found.items():
            log.warning(
                "slow: %d answers to %s took more than %d ms, within %.0f s: %s%s",
                sum(responses.values()), audit.request(code), RPC_STEPS_MS[step], seconds,
                ", ".join(_RESPONSES.get(each, str(each)) for each in responses), meanwhile,
                extra={"code": code, "count": sum(responses.values())},
            )  # fmt: skip

    def _log_times(self, latencies: dict[str, list[int]]) -> str:
        """How long the log took between two looks, for the log line."""
        found = []
        for name, text in (("append", "written"), ("flush", "synced")):
            counts = latencies.get(name, [])
            grown = since(counts, self._latencies.get(name, [0] * len(counts)))
            if (slowest_us := percentile(grown, 0.99)) is not None:
                found.append(f"{text} within {slowest_us // 1000} ms")
        return "; the log meanwhile: 99 % were " + ", ".join(found) if found else ""
