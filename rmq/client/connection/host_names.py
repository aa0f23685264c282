"""HostNames: looks up again the addresses of hosts that are known by name.

    names = HostNames(engine, timers)
    names.lost("broker-0.rmq:10911")      # its connection has ended: another address may be right

A host that has moved keeps its name and gets another address, for example a pod that was started
again. The engine connects to the address that it knows, so its next connection after the look-up
reaches the new address.

One chore looks the names up, one after the other. A look-up that takes long, for example because no
DNS server answers, holds up other look-ups and no other chore. A host that is given as an address
is never looked up.
"""

from __future__ import annotations

import logging
import threading

from cext.client.engine import Engine
from rmq.base.networks import is_name
from rmq.base.server_address import split_address
from rmq.client.connection.timers import Timers

log = logging.getLogger("rmq.client")


class HostNames:
    """The host names of one client; any thread may use it."""

    def __init__(self, engine: Engine, timers: Timers) -> None:
        self._engine = engine
        self._timers = timers
        self._lock = threading.Lock()
        self._due: set[str] = set()  # "host:port"
        self._is_looking = False

    def lost(self, address: str) -> None:
        """The connection to this address has ended: its host is looked up soon. Returns at once."""
        if not is_name(split_address(address)[0]):
            return
        with self._lock:
            self._due.add(address)
            if self._is_looking:
                return
            self._is_looking = True
        self._timers.after(0, self._look_up, chore=True)

    def _next(self) -> str | None:
        with self._lock:
            self._is_looking = bool(self._due)
            return self._due.pop() if self._due else None

    def _look_up(self) -> None:
        while (address := self._next()) is not None:
            try:
                self._engine.look_up_again(*split_address(address))
            except Exception as error:  # whatever the resolver raises: go on with the next one
                log.info("%s; its last address is kept", error)
