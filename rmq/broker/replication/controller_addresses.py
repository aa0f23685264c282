"""Controller addresses: where the controllers are, from controllerAddr.

    10.0.0.1:9878;10.0.0.2:9878           addresses are used as they are
    controllers.example:9878              a name: all its addresses, looked up again every LOOKUP_S;
                                          while that fails, the addresses found before

The address of the controller that leads, as the other controllers give it, is added if
controllerAddr leaves it out: without heartbeats it would take this replica for dead.

Example: ControllerAddresses("controllers:9878") -> ["10.0.0.1:9878", "10.0.0.2:9878"]
"""

from __future__ import annotations

import asyncio
import logging
import socket

from rmq.base import clock
from rmq.base.deadline import within
from rmq.base.networks import is_name
from rmq.errors import ConfigError
from rmq.serving.remoting_client import CallError, parse_address

LOOKUP_S = 10.0
LOOKUP_AGAIN_S = 1.0  # after a lookup that failed
LOOKUP_TIMEOUT_S = 3.0
ADDRESSES_MAX = 64

log = logging.getLogger("rmq.broker.controller_addresses")


class ControllerAddresses:
    """Owned by one event loop."""

    def __init__(self, text: str) -> None:
        """ConfigError: the text has no address, or something that is none."""
        self._given = [each.strip() for each in text.split(";") if each.strip()]
        if not 0 < len(self._given) <= ADDRESSES_MAX:
            raise ConfigError(
                f"controllerAddr={text[:200]}: 1 to {ADDRESSES_MAX} addresses, h1:9878;h2:9878"
            )
        try:
            self._parts = [parse_address(each) for each in self._given]
        except CallError as error:
            raise ConfigError(f"controllerAddr={text[:200]}: {error}") from None
        self._leader: list[tuple[str, int]] = []
        self._found: dict[str, list[str]] = {}  # name -> addresses at the last lookup
        self._looked_s = -LOOKUP_S
        self._said = ""

    async def all(self) -> list[str]:
        """All addresses, each once, in the order of controllerAddr. Empty while no name can be
        looked up."""
        parts = self._parts + self._leader
        names = {host for host, _ in parts if is_name(host)}
        interval_s = LOOKUP_AGAIN_S if self._said else LOOKUP_S
        if names and clock.monotonic() - self._looked_s >= interval_s:
            await self._look_up(names)
            self._looked_s = clock.monotonic()
        found = [
            f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
            for host, port in parts
            for ip in (self._found.get(host, ()) if is_name(host) else [host])
        ]
        return list(dict.fromkeys(found))[:ADDRESSES_MAX]

    def leads(self, address: str) -> None:
        """Takes the address of the controller that leads, as controllers say; CallError if it is no
        address."""
        self._leader = [parse_address(address)]
        if self._leader[0][0] not in self._found:
            self._looked_s = -LOOKUP_S

    async def _look_up(self, names: set[str]) -> None:
        looked = await asyncio.gather(*(self._addresses(host) for host in sorted(names)))
        problems = [problem for problem in looked if problem]
        text = "; ".join(problems)
        if text and text != self._said:
            log.warning("controllerAddr: %s", text)
        self._said = text

    async def _addresses(self, host: str) -> str:
        """Looks the name up; returns why that failed, or an empty text."""
        loop = asyncio.get_running_loop()
        try:
            found = await within(
                loop.getaddrinfo(host, None, type=socket.SOCK_STREAM), LOOKUP_TIMEOUT_S
            )
        except (OSError, UnicodeError, asyncio.TimeoutError) as error:
            return f"{host} cannot be looked up: {error or 'no answer in time'}"
        self._found[host] = list(dict.fromkeys(str(each[4][0]) for each in found))
        return ""
