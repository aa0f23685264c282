"""Account requests: what a slave says for its master's accounts, which hold passwords.

    new_account_request()         as slave: "accounts of the master 1795799944608 9f.."
    requests.refusal(text, "10.0.0.7:4711", replicas)  as master: why it is refused, or nothing

A signature covers the values of a request's fields, and nothing of what is asked by them: whoever
has listened could send what a Super user has signed for something else. So a value is asked for
that no other request has, that is of now, and that came only once; from this machine, or one of
rmqReplicaAddresses. The slave says it by TLS, or on this machine.
"""

from __future__ import annotations

import secrets

from rmq.base import clock
from rmq.broker.replication.ha_port import not_a_replica

PURPOSE = "accounts of the master"
NONCE_BYTES = 16
AGE_S = 300.0  # of what is asked, by both machines' clocks
REQUESTS_MAX = 10_000  # in twice that time


def new_account_request() -> str:
    return f"{PURPOSE} {round(clock.wall() * 1000)} {secrets.token_hex(NONCE_BYTES)}"


class AccountRequests:
    """Owned by the control thread."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}  # -> when it may be forgotten, in the order of that

    def refusal(self, text: str, peer: str, replicas: str) -> str:
        """replicas: rmqReplicaAddresses. Who asked is a Super user already."""
        if why := not_a_replica(peer, replicas):
            return why
        purpose, _, rest = text.rpartition(" ")[0].rpartition(" ")
        if purpose != PURPOSE or not rest.isdecimal() or len(rest) > 15:
            return "no replica asks for accounts so"
        now = clock.wall()
        if abs(now - int(rest) / 1000) > AGE_S:
            return f"asked for accounts {now - int(rest) / 1000:.0f} s ago, by this clock: set both"
        return "" if self._is_new(text, now) else "asked for accounts by the same words before"

    def _is_new(self, text: str, now: float) -> bool:
        while self._seen:
            oldest, until = next(iter(self._seen.items()))
            if until > now and len(self._seen) < REQUESTS_MAX:
                break
            del self._seen[oldest]
        if text in self._seen:
            return False
        self._seen[text] = now + 2 * AGE_S
        return True
