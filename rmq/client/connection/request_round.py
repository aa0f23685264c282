"""RequestRound: requests for many queues; an address that cannot be reached is dialled once.

    requests = RequestRound(instance)
    requests.submit(address, code, fields, body, timeout_ms, completed)      # as the instance's

A connection by TLS is waited for by who submits: for seconds, and without this for each queue.
"""

from __future__ import annotations

from collections.abc import Callable

from rmq.client.connection.caller import Caller, Done, Fields
from rmq.errors import UnreachableError

Submit = Callable[[str, int, Fields, bytes, int, Done], None]


class RequestRound:
    """Of one thread, for a moment."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._silent: dict[str, UnreachableError] = {}  # by address, why it could not be reached

    def submit(
        self, address: str, code: int, fields: Fields, body: bytes, timeout_ms: int, completed: Done
    ) -> None:
        """UnreachableError: also where it was one a moment ago, and nothing is connected since."""
        if address in self._silent and self._caller.must_connect(address):
            raise self._silent[address]
        try:
            self._caller.submit(address, code, fields, body, timeout_ms, completed)
        except UnreachableError as error:
            self._silent[address] = error
            raise
