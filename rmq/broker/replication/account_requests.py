"""Account requests: how a slave asks for its master's accounts, which hold passwords.

    new_account_request()         as slave: "accounts of the master 1795799944608 9f.."
    requests.refusal(text, "10.0.0.7:4711", replicas)  as master: why it is refused, or nothing

A signature covers the values of a request's fields, but not what is asked with them: somebody who
listened could send values that a Super user has signed for another request. So this request must
carry a value that no other kind of request has, that is recent, and that was not used before; and
it must come from this machine or from rmqReplicaAddresses. The slave sends it only by TLS, or to a
master on its own machine.
"""

from __future__ import annotations

import secrets

from rmq.base import clock
from rmq.broker.replication.ha_port import not_a_replica

PURPOSE = "accounts of the master"
NONCE_BYTES = 16
AGE_S = 300.0  # by how much the request's time may differ from the clock here
REQUESTS_MAX = 10_000  # in twice that time


def new_account_request() -> str:
    return f"{PURPOSE} {round(clock.wall() * 1000)} {secrets.token_hex(NONCE_BYTES)}"


class AccountRequests:
    """Owned by the control thread."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}  # request -> when it may be forgotten; ordered by that

    def refusal(self, text: str, peer: str, replicas: str) -> str:
        """Why the request is refused; empty: it is not. replicas: rmqReplicaAddresses. That the
        asker is a Super user was checked before."""
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
