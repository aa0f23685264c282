"""Response times: how long control took to answer, as a histogram in RocketMQ's buckets.

    times.answered(request, reply.code)      once a request is answered, from the dispatcher

    rows     rocketmq_rpc_latency: (request code, response code) -> counts between STEPS_MS
    created  making or changing a topic or a group: ("topic" | "group", done, of the system)

Control requests are some hundreds a second at most; no message comes this way.
"""

from bisect import bisect_left
from collections.abc import Callable

from rmq.base import clock
from rmq.broker.dispatch.request import Request
from rmq.codes import REQUEST_CODES, RequestCode, ResponseCode
from rmq.observe.sample import CREATE_STEPS_MS, RPC_STEPS_MS, StepCounts

ROWS_MAX = 1024  # pairs of codes; what is beyond is left out

TOPIC, GROUP = "topic", "group"
_CREATING: dict[int, str] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: TOPIC,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: TOPIC,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: GROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: GROUP,
}


class ResponseTimes:
    """Owned by the control thread."""

    def __init__(self, is_system: Callable[[str], bool]) -> None:
        self._is_system = is_system
        self.rows: dict[tuple[int, int], StepCounts] = {}
        self.created: dict[tuple[str, bool, bool], StepCounts] = {}

    def answered(self, request: Request, response_code: int) -> None:
        took_ms = int((clock.monotonic() - request.began) * 1000)
        code = request.command.code
        if code not in REQUEST_CODES:
            return
        self._row(code, response_code, took_ms)
        kind = _CREATING.get(code)
        if kind is not None:
            topic = request.command.text_field("topic") if kind == TOPIC else None
            system = topic is not None and self._is_system(topic)
            key = (kind, response_code == ResponseCode.SUCCESS, system)
            counts = self.created.setdefault(key, ([0] * (len(CREATE_STEPS_MS) + 1), 0))
            self.created[key] = _more(counts, CREATE_STEPS_MS, took_ms)

    def _row(self, code: int, response_code: int, took_ms: int) -> None:
        key = (code, response_code)
        counts = self.rows.get(key)
        if counts is None:
            if len(self.rows) == ROWS_MAX:
                return
            counts = ([0] * (len(RPC_STEPS_MS) + 1), 0)
        self.rows[key] = _more(counts, RPC_STEPS_MS, took_ms)


def _more(counts: StepCounts, bounds: tuple[int, ...], value: int) -> StepCounts:
    counts[0][bisect_left(bounds, value)] += 1
    return counts[0], counts[1] + value
